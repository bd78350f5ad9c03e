"""Email addresses with international domains: one form to store, compare and send to.

The domain is stored as A-labels (IDNA 2008, RFC 5890): what browsers send, what mail servers take,
and what no two spellings share. The part before the @ is stored as it is.
"""

import re
from typing import TYPE_CHECKING

from valetkey.kernel.runtime import import_lazily

if TYPE_CHECKING:
    import idna
else:
    idna = import_lazily("idna")

LONGEST = 200
"""Maximum length of an email address in characters."""

LABEL = re.compile(r"[A-Za-z0-9](?:[\w-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""A label of a domain in ASCII."""

_LOCAL = re.compile(r"[^\s()<>\[\]:;@\\,\"\x00-\x1f\x7f]{1,64}")
_LONGEST_DOMAIN = 253
_PREFIX = "xn--"


def ascii_email(text: str) -> str:
    """Return the address with its domain in ASCII; the text itself if that is not possible."""
    local, at, domain = text.rpartition("@")
    if not local or not at or domain.isascii():
        return text
    return f"{local}@{ascii_domain(domain) or domain}"


def shown_email(text: str) -> str:
    """Return the address as its owner writes it, with the letters of its domain."""
    local, at, domain = text.rpartition("@")
    return f"{local}@{_unicode_domain(domain) or domain}" if at else text


def is_mailable(text: str) -> bool:
    """Return whether the address is well-formed, so that email to it could arrive."""
    text = ascii_email(text)
    local, at, domain = text.rpartition("@")
    if not at or len(text) > LONGEST or not text.isprintable() or ".." in local:
        return False
    if not _LOCAL.fullmatch(local) or local.startswith(".") or local.endswith("."):
        return False
    labels = domain.split(".")
    return len(labels) > 1 and all(map(LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def ascii_domain(domain: str) -> str:
    """Return an international domain in ASCII and lower case; "" if it is none."""
    is_international = not domain.isascii() or _PREFIX in domain.lower()
    if not is_international or len(domain) > _LONGEST_DOMAIN:
        return ""
    try:
        return idna.encode(domain, uts46=True).decode("ascii").lower()
    except UnicodeError:
        return ""


def _unicode_domain(domain: str) -> str:
    # Of the form in ASCII: letters that are mapped to others are not decoded.
    in_ascii = ascii_domain(domain) if _PREFIX in domain.lower() else ""
    return idna.decode(in_ascii) if in_ascii else ""
