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


def test_live_secrets_are_decrypted_in_the_order_of_registration() -> None:
    old, ended = _secret("old", Instant(NOW + 1)), _secret("ended", NOW)
    assert _of(_secret("new"), old, ended) == ["the text of new", "the text of old"]


def test_secret_that_is_stored_only_as_fingerprint_is_left_out() -> None:
    assert _of(ClientSecret("plain", Fingerprint("print"), None)) == []


def test_secret_that_was_sealed_for_another_row_is_left_out() -> None:
    assert _of(_secret("here", at="elsewhere")) == []


def test_secrets_sealed_with_another_keyring_are_left_out() -> None:
    assert _of(_secret("new"), sealer=Sealer((SealingKey(1, b"x" * 32),))) == []
