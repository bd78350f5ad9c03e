"""What a client is sent: signed as it registered, encrypted where it asked, never without keys."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwe, jws
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.model.client import (
    Client,
    ClientSecret,
    OpenIdRegistration,
    client_without_rights,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.client_keys import (
    ClientKeys,
    ClientSigner,
    SharedSecrets,
    secret_context,
)
from valetkey.authorization.tokens.signing_keys import KeyPlan, SigningKeyRing
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwe import ALGORITHMS, ENCRYPTIONS
from valetkey.kernel.jose.key import public_members
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Fingerprint, Prefix, Secret, fresh_secret

NOW = Instant(1_800_000_000)
CLAIMS = {"iss": "https://as.example", "sub": "1001", "aud": "web1", "exp": NOW + 60}
RSA = rsa.generate_private_key(65_537, 2_048)
EC = ec.generate_private_key(ec.SECP256R1())
THEIRS: dict[str, RSAKey | ECKey] = {
    "RSA-OAEP-256": RSAKey.import_key(RSA),
    "ECDH-ES": ECKey.import_key(EC),
}
DOCUMENT = json.dumps(
    {
        "keys": [
            public_members(key) | {"use": use, "kid": f"{use} {key.key_size}".replace(" ", "-")}
            for key in (RSA.public_key(), EC.public_key())
            for use in ("sig", "enc")
        ]
    }
).encode()


@dataclass
class World:
    """A signer, the server's public keys, and a client with two secrets."""

    signer: ClientSigner
    keyring: Keyring
    encryption_keys: bytes
    secrets: list[Secret] = field(default_factory=list[Secret])

    def client(self) -> Client:
        kept: list[ClientSecret] = []
        for n in range(2):
            secret = fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random)
            sealed = self.keyring.sealer.seal(
                secret.reveal().encode(), secret_context(f"s{n}"), SYSTEM.random
            )
            kept.append(ClientSecret(f"s{n}", Fingerprint(f"f{n}"), None, sealed))
            self.secrets.append(secret)
        registered = OpenIdRegistration(encryption_keys=self.encryption_keys.decode())
        client = client_without_rights("web1", NOW)
        return replace(client, secrets=tuple(kept), openid=registered)

    def published(self) -> KeySet:
        return KeySet.import_key_set(json.loads(self.signer.keys.published(NOW).document()))


def run(
    directory: Path,
    story: Callable[[World], Awaitable[None]],
    encryption_keys: bytes = DOCUMENT,
    algorithms: tuple[Algorithm, ...] = tuple(Algorithm),
) -> None:
    async def tell() -> None:
        keyring = Keyring.fresh(SYSTEM.random)
        store = Store(connect("sqlite:///a.db", directory=directory), SYSTEM.random)
        try:
            await migrate(store.engine, SCHEMA)
            plan = KeyPlan(days(90), days(1), algorithms)
            ring = SigningKeyRing(store, keyring.sealer, plan, SYSTEM.random)
            await ring.maintain(NOW)
            shared = SharedSecrets(keyring.sealer)
            signer = ClientSigner(
                ring, shared, ClientKeys(OutboundHttp((), SYSTEM.now)), SYSTEM.random
            )
            await story(World(signer, keyring, encryption_keys))
        finally:
            await store.engine.close()

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("offered", "expected"),
    [(tuple(Algorithm), "RS256"), ((Algorithm.ES256, Algorithm.EDDSA), "ES256")],
)
def test_client_without_algorithm_gets_rs256_where_the_server_has_it(
    tmp_path: Path, offered: tuple[Algorithm, ...], expected: str
) -> None:
    async def story(it: World) -> None:
        text = await it.signer.sign(CLAIMS, it.client(), NOW, algorithm=None)
        assert (
            jws.deserialize_compact(text, it.published(), [expected]).headers()["alg"] == expected
        )

    run(tmp_path, story, algorithms=offered)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
def test_second_library_reads_every_signing_and_encryption_algorithm(
    tmp_path: Path,
) -> None:
    async def story(it: World) -> None:
        client = it.client()
        for algorithm in (*Algorithm, "HS256"):
            text = await it.signer.sign(CLAIMS, client, NOW, algorithm=algorithm)
            key = OctKey.import_key(it.secrets[0].reveal()) if algorithm == "HS256" else None
            signed = jws.deserialize_compact(text, key or it.published(), [algorithm])
            assert json.loads(signed.payload) == CLAIMS
            assert signed.headers()["typ"] == "JWT"
            for alg in ALGORITHMS:
                for enc in ENCRYPTIONS:
                    sealed = await it.signer.sign(
                        CLAIMS,
                        client,
                        NOW,
                        typ="logout+jwt",
                        algorithm=algorithm,
                        encryption_alg=alg,
                        encryption_enc=enc,
                    )
                    opened = jwe.decrypt_compact(sealed, THEIRS[alg], algorithms=[alg, enc])
                    assert opened.headers()["cty"] == "JWT"
                    assert opened.headers()["kid"] == ("enc-2048" if alg[0] == "R" else "enc-256")
                    inner = (opened.plaintext or b"").decode()
                    signed = jws.deserialize_compact(inner, key or it.published(), [algorithm])
                    assert json.loads(signed.payload) == CLAIMS
                    assert signed.headers()["typ"] == "logout+jwt"

    run(tmp_path, story)


def test_unsigned_claims_must_be_encrypted(
    tmp_path: Path,
) -> None:
    async def story(it: World) -> None:
        client = it.client()
        text = await it.signer.sign(
            CLAIMS,
            client,
            NOW,
            algorithm="",
            encryption_alg="ECDH-ES",
            encryption_enc="A128GCM",
        )
        opened = jwe.decrypt_compact(text, THEIRS["ECDH-ES"], algorithms=["ECDH-ES", "A128GCM"])
        assert json.loads(opened.plaintext or b"") == CLAIMS
        assert "cty" not in opened.headers()
        with pytest.raises(ValueError, match="signed, encrypted, or both"):
            await it.signer.sign(CLAIMS, client, NOW, algorithm="")

    run(tmp_path, story, algorithms=(Algorithm.ES256,))


@pytest.mark.parametrize(
    ("algorithm", "alg", "enc", "check"),
    [
        ("RS256", "", "", "signed.algorithm"),
        ("none", "", "", "signed.algorithm"),
        ("HS512", "", "", "signed.algorithm"),
        ("HS256", "", "", "signed.secret"),
        ("ES256", "RSA-OAEP-256", "A128GCM", "signed.encryption"),
        ("ES256", "RSA1_5", "A128GCM", "signed.encryption"),
        ("ES256", "dir", "A128GCM", "signed.encryption"),
        ("ES256", "ECDH-ES", "A192CBC-HS384", "signed.encryption"),
        ("ES256", "ECDH-ES", "", "signed.encryption"),
    ],
)
def test_response_without_a_usable_key_is_refused(
    tmp_path: Path, algorithm: str, alg: str, enc: str, check: str
) -> None:
    only_ec = json.dumps({"keys": [public_members(EC.public_key())]}).encode()

    async def story(it: World) -> None:
        client = replace(it.client(), secrets=())
        with pytest.raises(Refused) as refused:
            await it.signer.sign(
                CLAIMS, client, NOW, algorithm=algorithm, encryption_alg=alg, encryption_enc=enc
            )
        assert refused.value.refusal.code is ErrorCode.INVALID_CLIENT_METADATA
        assert refused.value.refusal.check == check

    run(tmp_path, story, only_ec, (Algorithm.ES256,))
