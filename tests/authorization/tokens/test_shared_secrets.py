"""Client secrets in clear."""

from hashlib import sha256

from valetkey.authorization.model.client import ClientSecret, client_without_rights
from valetkey.authorization.tokens.client_keys import SharedSecrets, secret_context
from valetkey.kernel.keyring import Sealer, SealingKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint

NOW = Instant(1_800_000_000)
SEALER = Sealer((SealingKey(1, bytes(32)),))


def _random(size: int) -> bytes:
    return sha256(b"seed").digest()[:size]


def _secret(name: str, expires_at: Instant | None = None, at: str = "") -> ClientSecret:
    sealed = SEALER.seal(f"the text of {name}".encode(), secret_context(at or name), _random)
    return ClientSecret(name, Fingerprint("print"), expires_at, sealed)


def _of(*secrets: ClientSecret, sealer: Sealer = SEALER) -> list[str]:
    client = replace(client_without_rights("c", NOW), secrets=secrets)
    return [secret.reveal() for secret in SharedSecrets(sealer).live_secrets(client, NOW)]


def test_live_secrets_open_in_the_order_of_the_register() -> None:
    old, ended = _secret("old", Instant(NOW + 1)), _secret("ended", NOW)
    assert _of(_secret("new"), old, ended) == ["the text of new", "the text of old"]


def test_a_secret_that_is_kept_as_fingerprint_only_is_not_there() -> None:
    assert _of(ClientSecret("plain", Fingerprint("print"), None)) == []


def test_a_sealed_secret_opens_in_its_own_row_only() -> None:
    assert _of(_secret("here", at="elsewhere")) == []


def test_another_keyring_opens_none() -> None:
    assert _of(_secret("new"), sealer=Sealer((SealingKey(1, b"x" * 32),))) == []
