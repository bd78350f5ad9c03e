"""Addresses that email can be sent to (RFC 5321), of those that users type."""

import re

LONGEST = 200
"""Characters in an address."""

_LOCAL = re.compile(r"[^\s()<>\[\]:;@\\,\"\x00-\x1f\x7f]{1,64}")
_LABEL = re.compile(r"(?!-)[^\W_](?:[\w-]{0,61}[^\W_])?(?<!-)")


def is_mailable(text: str) -> bool:
    """Whether the address is well-formed, so that email to it could arrive."""
    local, at, domain = text.rpartition("@")
    if not at or len(text) > LONGEST or not text.isprintable() or ".." in local:
        return False
    if not _LOCAL.fullmatch(local) or local.startswith(".") or local.endswith("."):
        return False
    labels = domain.split(".")
    if len(labels) < 2 or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():  # noqa: PLR2004
        return False
    try:
        domain.encode("idna")
    except UnicodeError:
        return False
    return True
