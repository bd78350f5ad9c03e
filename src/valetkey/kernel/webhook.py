"""Signatures of webhooks (Standard Webhooks 1.0), shared by sender and receiver."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable

SECRET_PREFIX = "whsec_"
"""How a signing secret begins; base64 of 24 to 64 bytes follows."""

_SIZE = 32
_SHORTEST = 24
_LONGEST = 64


def fresh_webhook_secret(random: Callable[[int], bytes]) -> str:
    """Return a new signing secret of 256 random bits: `whsec_` and base64."""
    return SECRET_PREFIX + b64encode(random(_SIZE)).decode("ascii")


def webhook_signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the `v1` signature of a message: `v1,` and base64 of its HMAC-SHA-256.

    Raises ValueError if `secret` is not `whsec_` and base64 of 24 to 64 bytes.
    """
    key = _key(secret)
    if key is None:
        # Without the value: the secret must not appear in a traceback.
        raise ValueError("a webhook secret is whsec_ and base64 of 24 to 64 bytes")
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode("ascii")


def is_webhook_secret(secret: str) -> bool:
    """Return whether this is `whsec_` and base64 of 24 to 64 bytes."""
    return secret.startswith(SECRET_PREFIX) and _key(secret) is not None


def _key(secret: str) -> bytes | None:
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (Error, ValueError):
        return None
    return key if _SHORTEST <= len(key) <= _LONGEST else None
