"""The rules for each claim of a user's profile (OpenID Connect Core section 5.1)."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from valetkey.authorization.model.user import TEXT_CLAIMS, Address, StandardClaims
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.protocol.register.openid_rules import is_link

LONGEST = 200
"""Maximum length of a name, and of each part of an address, in characters."""

LONGEST_ADDRESS = 1_000
"""Maximum length of a whole address in characters, line breaks included."""

_PHONE_NUMBER = re.compile(r"\+[1-9][0-9]{4,14}", re.ASCII)
_BIRTHDATE = re.compile(r"([0-9]{4})(?:-([0-9]{2})-([0-9]{2}))?", re.ASCII)
_LOCALE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8}){0,4}", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+-]{1,40}(?:/[A-Za-z0-9_+-]{1,40}){0,2}", re.ASCII)
_LEAP = 2_000
"""A leap year, in which birthdays without a year are validated."""


def claim_faults(claims: StandardClaims) -> Iterator[MetadataError]:
    """Yield every error; an empty claim is absent and never an error."""
    for name in TEXT_CLAIMS:
        is_good, code = _RULES.get(name, _TEXT)
        said: str = getattr(claims, name)
        if said and not is_good(said):
            yield input_fault(name, code, most=LONGEST)
    if claims.phone_number_verified and not claims.phone_number:
        yield input_fault("phone_number_verified", "claim.unverifiable")
    for name in Address.__struct_fields__:
        part: str = getattr(claims.address, name)
        if name in _SEVERAL_LINES:
            is_plain = len(part) <= LONGEST_ADDRESS and all(map(_is_plain, part.split("\n")))
            code, most = "text.lines", LONGEST_ADDRESS
        else:
            is_plain, code, most = _is_plain(part), "text.trimmed", LONGEST
        if part and not is_plain:
            yield input_fault(f"address/{name}", code, most=most)


def _is_plain(text: str) -> bool:
    # isprintable refuses controls, separators, surrogates and the bidi controls that reorder text.
    return len(text) <= LONGEST and text.isprintable() and text.strip() == text


def _is_birthdate(text: str) -> bool:
    match = _BIRTHDATE.fullmatch(text)
    if match is None:
        return False
    year = int(match[1])
    if match[2] is None:
        return year > 0
    try:
        date(year or _LEAP, int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _is_zone(text: str) -> bool:
    if _ZONE.fullmatch(text) is None:
        return False
    # Without a time zone database, every name is accepted.
    return _exists(text) or not _exists("UTC")


def _exists(zone: str) -> bool:
    # One file is read: a list of all of them would cost a hundred times as much.
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


_SEVERAL_LINES = ("formatted", "street_address")
_Rule = tuple[Callable[[str], bool], str]
_TEXT: _Rule = (_is_plain, "text.trimmed")
_URL: _Rule = (is_link, "claim.link")
PICTURES = "/pictures"
"""The path below the issuer of pictures that users uploaded."""

# A server on loopback may do without https; its own pictures are there.
_OWN_PICTURE = re.compile(
    rf"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{{1,5}})?{PICTURES}/[A-Za-z0-9_-]{{22}}"
)
_PICTURE: _Rule = (
    lambda text: is_link(text) or _OWN_PICTURE.fullmatch(text) is not None,
    "claim.link",
)

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        "profile": _URL,
        "picture": _PICTURE,
        "website": _URL,
        "birthdate": (_is_birthdate, "claim.birthdate"),
        "zoneinfo": (_is_zone, "claim.zoneinfo"),
        "locale": (
            lambda text: _LOCALE.fullmatch(text) is not None,
            "claim.locale",
        ),
        "phone_number": (
            lambda text: _PHONE_NUMBER.fullmatch(text) is not None,
            "claim.phone_number",
        ),
    }
)
"""The rule of each claim that is not a name or another short text."""
