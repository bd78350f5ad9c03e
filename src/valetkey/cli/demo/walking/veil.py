"""Shortening: what is secret shows enough to be recognised, and not enough to be used."""

import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl, urlsplit

_NAMES = frozenset(
    {"client_secret", "code_challenge", "code_verifier", "csrf", "interaction", "password"}
)
_LONG = 16
_HEAD, _TAIL = 8, 4
_LOOK = re.compile(
    r"vk_[a-z]{2}_[0-9A-Za-z.~_-]{20,}|eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]+"
)


def short(text: str) -> str:
    """The beginning and the end; of a short secret, only the beginning."""
    if len(text) > _LONG:
        return f"{text[:_HEAD]}…{text[-_TAIL:]}"
    return f"{text[:2]}…" if text else ""


def value(name: str, text: str) -> str:
    """The value of a parameter or member, as it may be shown."""
    if name == "password":
        return f"{text[:2]}…"
    return short(text) if name in _NAMES else mask_secrets(text)


def header(name: str, text: str) -> str:
    """The value of a header, as it may be shown."""
    if name == "Authorization":
        scheme, _, credential = text.partition(" ")
        return f"{scheme} {short(credential)}"
    return mask_secrets(text)


def document(found: object) -> object:
    """A JSON value, as it may be shown."""
    if isinstance(found, dict):
        members = cast("Mapping[str, object]", found)
        return {
            name: value(name, inner) if isinstance(inner, str) else document(inner)
            for name, inner in members.items()
        }
    if isinstance(found, list):
        return [document(inner) for inner in cast("list[object]", found)]
    return mask_secrets(found) if isinstance(found, str) else found


def mask_secrets(text: str) -> str:
    """Shorten everything in the text that looks like one of this server's secrets."""
    return _LOOK.sub(lambda match: short(match.group()), text)


def address(url: str) -> str:
    """A URL with its query and its fragment as they may be shown."""
    parts = urlsplit(url)
    query, fragment = (
        "&".join(f"{name}={value(name, text)}" for name, text in parse_qsl(each))
        for each in (parts.query, parts.fragment)
    )
    return parts._replace(query=query, fragment=fragment).geturl()
