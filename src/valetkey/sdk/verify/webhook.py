"""Verify webhooks: signature, age and identifier (Standard Webhooks 1.0)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from valetkey.kernel.secret import same
from valetkey.kernel.webhook import webhook_signature

TOLERANCE = 300
"""Maximum difference between the clocks of sender and receiver, in seconds."""

_MOST_SIGNATURES = 16


class InvalidWebhook(ValueError):
    """A request is not an authentic webhook; answer it with 400 and do nothing else."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified message. Ignore one whose `id` was handled before: delivery is at least once."""

    id: str
    type: str
    timestamp: str
    """When the event happened, in RFC 3339."""
    data: Mapping[str, object]


class _Body(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: dict[str, object]


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    *secrets: str,
    now: float,
    tolerance: int = TOLERANCE,
) -> Webhook:
    """Return the message of an authentic webhook request.

    `headers` are looked up in any case, `body` are the bytes as received, before any parsing, and
    `now` is the Unix time in seconds. While a secret is rotated, pass both. Signatures are
    compared in constant time. Raises InvalidWebhook for a missing or malformed header, a
    timestamp further than `tolerance` seconds away, and an invalid signature.
    """
    known = {name.lower(): value for name, value in headers.items()}
    message_id = known.get("webhook-id", "")
    timestamp = known.get("webhook-timestamp", "")
    signatures = known.get("webhook-signature", "").split()
    if not message_id or not signatures or len(signatures) > _MOST_SIGNATURES:
        raise InvalidWebhook("webhook-id or webhook-signature is missing or malformed")
    # int() alone would accept signs, spaces, underscores and digits of other scripts.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= len("9" * 12)):
        raise InvalidWebhook("webhook-timestamp is missing or malformed")
    if abs(now - int(timestamp)) > tolerance:
        raise InvalidWebhook("webhook-timestamp is too far from this clock")
    if not _is_signed(message_id, int(timestamp), body, signatures, secrets):
        raise InvalidWebhook("webhook-signature is invalid")
    try:
        read = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidWebhook("the body is not a webhook") from error
    return Webhook(message_id, read.type, read.timestamp, read.data)


def _is_signed(
    message_id: str,
    timestamp: int,
    body: bytes,
    signatures: Sequence[str],
    secrets: Sequence[str],
) -> bool:
    is_signed = False
    for secret in secrets:
        expected = webhook_signature(secret, message_id, timestamp, body)
        for signature in signatures:
            is_signed |= same(signature, expected)
    return is_signed
