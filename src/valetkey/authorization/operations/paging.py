"""Pages of lists: how many, where they go on, and the words for both."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from valetkey.authorization.operations.operation import InvalidInput, Parameter
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.storage.administration.client_search import END, Cursor
from valetkey.kernel.moment import Instant

USUAL = 50
MOST = 200

_PLACE = re.compile(r"(0|[1-9][0-9]{0,14})\.([A-Za-z0-9._~-]{1,100})", re.ASCII)

PAGING: Sequence[Parameter] = (
    Parameter(
        "limit",
        "How many at most.",
        {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
    ),
    Parameter(
        "after",
        "Where to go on: `next` of the page before.",
        {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,14})\.[A-Za-z0-9._~-]{1,100}$"},
    ),
)


def limit_of(query: Mapping[str, str]) -> int:
    """How many are wanted."""
    return int(query.get("limit", str(USUAL)))


def place_of(query: Mapping[str, str]) -> Cursor:
    """Where the list goes on; Refused for what no page gave out."""
    return place_in(query.get("after"))


def place_in(text: str | None) -> Cursor:
    """The same for the text itself, None for the beginning."""
    if text is None:
        return END
    match = _PLACE.fullmatch(text)
    if match is None:
        raise InvalidInput([MetadataError("after", "what `next` of the page before says")])
    return Cursor(Instant(int(match[1])), match[2])


def cursor(place: Cursor | None) -> str:
    """The place as `after` takes it; "" for none."""
    return "" if place is None else f"{place.at}.{place.id}"


def link(path: str, query: Mapping[str, str], after: str) -> str:
    """The Link header that leads on."""
    said = urlencode({**query, "after": after})
    return f'<{path}?{said}>; rel="next"'


def flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return the value of a boolean parameter; None where it is absent."""
    value = query.get(name)
    return None if value is None else value == "true"
