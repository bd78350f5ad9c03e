"""Content negotiation: accepted and returned media types (RFC 9110 sections 8 and 12)."""

import re
from enum import StrEnum
from hashlib import sha256
from typing import cast

from valetkey.kernel.preconditions import (
    FAILED,
    NO_PRECONDITIONS,
    REQUIRED,
    Preconditions,
    etag_of,
    preconditions,
)
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.shapes import Document
from valetkey.resource.requests.patches import MergePatch, Patch, read_json_patch
from valetkey.resource.storage.objects import IdempotencyKey
from valetkey.web.body import read_json
from valetkey.web.exchange import Headers, Pairs, Request

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PATCHES = f"{MERGE_PATCH}, {JSON_PATCH}, {JSON}"
"""The value of Accept-Patch (RFC 5789 section 3.1)."""

NOT_ACCEPTABLE = Refusal(
    ErrorCode.INVALID_REQUEST,
    "this API answers in application/json, which the Accept header excludes",
    "accept.excludes_json",
    JSON,
    "an Accept header without it",
)
"""406: only JSON is available."""

_CHARSET = r'(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*'
_JSON_TYPE = re.compile(re.escape(JSON) + _CHARSET, re.IGNORECASE | re.ASCII)
_PATCH_TYPE = re.compile(
    f"(?:{re.escape(JSON)}|{re.escape(MERGE_PATCH)}){_CHARSET}", re.IGNORECASE | re.ASCII
)
_JSON_PATCH_TYPE = re.compile(re.escape(JSON_PATCH) + _CHARSET, re.IGNORECASE | re.ASCII)
_ZERO = re.compile(r"q=0(?:\.0{0,3})?", re.IGNORECASE | re.ASCII)
# The more specific of two ranges decides (RFC 9110 section 12.5.1).
_ANYTHING = ("*/*",)  # the value that most clients send
_RANGES = (JSON, "application/*", "*/*")


def check_accept(headers: Headers) -> None:
    """Raise Refused (406) unless the caller accepts JSON; no Accept header accepts anything."""
    if headers.get("accept") is not None and not _accepts_json(headers):
        raise Refused(NOT_ACCEPTABLE)


def read_document(headers: Headers, body: bytes, *, patch: bool = False) -> Document:
    """Parse the JSON object in a body; with `patch` also of the merge patch media type.

    Raises Refused: 415 for another content type, 400 for JSON that parsers read differently.
    """
    types = _PATCH_TYPE if patch else _JSON_TYPE
    if types.fullmatch((headers.get("content-type") or "").strip(" \t")) is None:
        names = f"{MERGE_PATCH}, {JSON_PATCH} or {JSON}" if patch else JSON
        raise Refused.because(
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            f"the body must be {names} in UTF-8",
            "body.content_type",
            names,
            "another Content-Type, or none",
        )
    document = read_json(body)
    if not isinstance(document, dict):
        raise Refused.because(
            ErrorCode.INVALID_REQUEST, "the body must be a JSON object", "body.not_an_object"
        )
    return cast("dict[str, object]", document)


def read_patch(headers: Headers, body: bytes) -> Patch:
    """Parse the patch in a body: a merge patch, also sent as plain JSON, or a JSON Patch.

    Raises Refused as `read_document` does, and Invalid.
    """
    if _JSON_PATCH_TYPE.fullmatch((headers.get("content-type") or "").strip(" \t")):
        return read_json_patch(read_json(body))
    return MergePatch(read_document(headers, body, patch=True))


def _accepts_json(headers: Headers) -> bool:
    fields = headers.all("accept")
    if not fields or fields == _ANYTHING:
        return True
    allowed: dict[str, bool] = {}
    for field in fields:
        for item in field.split(","):
            name, *parameters = (part.strip(" \t") for part in item.split(";"))
            refused = any(_ZERO.fullmatch(parameter) for parameter in parameters)
            allowed[name.lower()] = allowed.get(name.lower(), False) or not refused
    if set(allowed) <= {""}:
        return True
    return next((allowed[name] for name in _RANGES if name in allowed), False)


__all__ = [
    "FAILED",
    "NO_PRECONDITIONS",
    "OTHER_BODY",
    "REQUIRED",
    "Preconditions",
    "etag_of",
    "read_idempotency_key",
    "read_preconditions",
]

_KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)

OTHER_BODY = Refusal(
    ErrorCode.INVALID_REQUEST,
    "this Idempotency-Key was used for a request with another body: take a new key",
    "idempotency_key.other_body",
    "the body of the first request",
    "another body",
)
"""The refusal of an idempotency key that was used with another body."""


class Preference(StrEnum):
    """The body to send after a change."""

    REPRESENTATION = "return=representation"
    MINIMAL = "return=minimal"


def read_preference(headers: Headers) -> Preference | None:
    """Return the first supported preference, or None. Unknown ones are ignored."""
    for field in headers.all("prefer"):
        for item in field.split(","):
            preference = (
                item.partition(";")[0].replace('"', "").replace(" ", "").strip("\t").lower()
            )
            if preference in tuple(Preference):
                return Preference(preference)
    return None


def applied(preference: Preference | None) -> Pairs:
    """Return the header that names the preference applied."""
    return () if preference is None else (("preference-applied", preference.value),)


def read_preconditions(headers: Headers) -> Preconditions:
    """Parse If-Match and If-None-Match. Raises Refused (400) for an invalid list of tags."""
    return preconditions(headers.all("if-match"), headers.all("if-none-match"))


def read_idempotency_key(request: Request, client_id: str) -> IdempotencyKey | None:
    """Return a POST's key and the hash of its body. Raises Refused (400) for a malformed key."""
    fields = request.headers.all("idempotency-key")
    if not fields:
        return None
    name, *others = fields
    if others or _KEY.fullmatch(name) is None:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "the Idempotency-Key must be one text of 1 to 255 visible ASCII characters",
            "idempotency_key.malformed",
        )
    return IdempotencyKey(client_id, name, to_base64url(sha256(request.body).digest()))
