"""An API's protected resource metadata (RFC 9728)."""

import re
from collections.abc import Collection, Sequence

import msgspec

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_URL = re.compile(r"(https?://[^/?#\s]+)(/[^?#\s]*)?", re.ASCII)


def metadata_path(resource: str) -> str:
    """Return the path of the metadata of the API called `resource` (RFC 9728 section 3.1).

    The path is on the host of `resource`; "" if `resource` is no http or https URL: such an API has
    no metadata.
    """
    match = _URL.fullmatch(resource)
    if match is None:
        return ""
    path = match[2] or ""
    return WELL_KNOWN + ("" if path == "/" else path)


def metadata_url(resource: str) -> str:
    """Return the URL of the metadata document; "" if there is none."""
    match = _URL.fullmatch(resource)
    return "" if match is None else match[1] + metadata_path(resource)


def metadata_document(
    resource: str,
    issuers: Sequence[str],
    scopes: Collection[str] = (),
    *,
    name: str = "",
    documentation: str = "",
) -> bytes:
    """Return the document as JSON (section 2).

    `documentation` is the URL of a page for developers. Tokens are accepted in the Authorization
    header alone.
    """
    document: dict[str, object] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = list(scopes)
    if name:
        document["resource_name"] = name
    if documentation:
        document["resource_documentation"] = documentation
    return msgspec.json.encode(document)
