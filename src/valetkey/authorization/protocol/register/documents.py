"""Client ID metadata documents: which URLs may be a client id, and what their documents must say.

Source: draft-ietf-oauth-client-id-metadata-document, as the MCP authorization specification of
2025-11-25 uses it. Everything else about such a client is judged as at dynamic registration.
"""

import re
from collections.abc import Mapping
from typing import NoReturn, cast
from urllib.parse import unquote

from valetkey.authorization.model.register.client import is_by_secret
from valetkey.authorization.protocol.client_authentication import REGISTERED
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.self_registration import refuse_registration
from valetkey.kernel.moment import Lifetime, days, hours, minutes
from valetkey.kernel.refusal import Refused
from valetkey.kernel.url import parse_url
from valetkey.web.body import read_json

SCHEME = "https://"
"""A client id that begins so is the URL of a document."""

LONGEST_URL = 200
"""Maximum length of such a client id, in bytes."""

LARGEST = 32_768
"""Maximum size of a document, in bytes."""

SHORTEST_LIFE, USUAL_LIFE, LONGEST_LIFE = minutes(1), hours(1), days(1)
"""Bounds of the time for which a document is used without asking again, and the default."""

_SECRETS = ("client_secret", "client_secret_expires_at")
_METHODS = sorted(name for name, method in REGISTERED.items() if not is_by_secret(method))
"""Everyone can read the document, so its client has no secret."""
_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.-]+\+)?json")
_AGE = re.compile(r"[0-9]{1,9}", re.ASCII)


def host_of_document(client_id: str) -> str:
    """Return the host of a client id that is the URL of a document, with its port if unusual.

    Refused unless it is an https URL with a path, and without user name, query, fragment and dot
    segments, written so that every parser reads it alike.
    """
    web = parse_url(client_id) if len(client_id) <= LONGEST_URL else None
    if web is None or web.scheme != "https":
        _refuse("client_id", f"an https URL in lower case, of at most {LONGEST_URL} bytes")
    if not web.rest.startswith("/") or "?" in web.rest:
        _refuse("client_id", "a URL with a path and without a query")
    if any(unquote(segment) in {".", ".."} for segment in web.rest.split("/")):
        _refuse("client_id", "a URL without the path segments . and ..")
    return web.origin().removeprefix(SCHEME)


def read_document(client_id: str, media_type: str, body: bytes) -> Mapping[str, object]:
    """Return the members of the document at `client_id`, with the defaults of such documents.

    Without `token_endpoint_auth_method` the client is public. Refused if the document does not name
    `client_id` byte for byte, if it has a secret, and for an unknown authentication method, which a
    registration would replace: the app does not read what was registered.
    """
    if _JSON.fullmatch(media_type) is None or len(body) > LARGEST:
        _refuse("the document", f"JSON of at most {LARGEST // 1024} KiB")
    try:
        value = read_json(body)
    except Refused as refused:
        _refuse("the document", refused.refusal.description)
    if not isinstance(value, dict):
        _refuse("the document", "a JSON object")
    said = cast("dict[str, object]", value)
    if said.get("client_id") != client_id:
        _refuse("client_id", "the URL of the document, byte for byte")
    for name in _SECRETS:
        if said.get(name) is not None:
            _refuse(name, "none: everyone can read the document")
    method = said.get("token_endpoint_auth_method") or "none"
    if method not in _METHODS:
        _refuse("token_endpoint_auth_method", " or ".join(_METHODS))
    return {**said, "token_endpoint_auth_method": method}


def lifetime_of(cache_control: str, age: str) -> Lifetime:
    """Return for how long a response may be used, by its headers and within our bounds."""
    pairs = (part.strip().lower().partition("=") for part in cache_control.split(","))
    said = {name: value.strip('"') for name, _, value in pairs}
    if not said.keys().isdisjoint({"no-store", "no-cache"}):
        return SHORTEST_LIFE
    wanted = said.get("s-maxage", said.get("max-age", ""))
    if _AGE.fullmatch(wanted) is None:
        return USUAL_LIFE
    spent = int(age) if _AGE.fullmatch(age) else 0
    return Lifetime(min(max(int(wanted) - spent, SHORTEST_LIFE), LONGEST_LIFE))


def _refuse(field: str, detail: str) -> NoReturn:
    refuse_registration([MetadataError(field, detail)])
