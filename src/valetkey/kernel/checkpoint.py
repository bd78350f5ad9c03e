"""Ed25519 signatures (RFC 8032) with a key that is derived from the keyring."""

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from valetkey.kernel.secret import FingerprintKey, from_base64url, to_base64url


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointKey:
    """A key that signs text for one purpose; it exists as long as the keyring."""

    _key: Ed25519PrivateKey

    @staticmethod
    def derive(key: FingerprintKey, purpose: str) -> "CheckpointKey":
        """Return the key of this keyring for `purpose`; always the same one."""
        return CheckpointKey(
            Ed25519PrivateKey.from_private_bytes(key.digest("checkpoint key", purpose))
        )

    @property
    def public(self) -> str:
        """The public key in base64url."""
        return to_base64url(self._key.public_key().public_bytes_raw())

    def sign(self, text: str) -> str:
        """Return the signature of `text` in base64url; deterministic."""
        return to_base64url(self._key.sign(text.encode()))


def verifies(public: str, signature: str, text: str) -> bool:
    """Return whether the key `public` made this signature of `text`."""
    key, signed = from_base64url(public), from_base64url(signature)
    if key is None or signed is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signed, text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
