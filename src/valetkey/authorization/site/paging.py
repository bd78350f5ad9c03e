"""Pages of a list that goes on after a cursor: the addresses of those beside the shown one."""

from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.web.body import Form

_APART = "~"
_GAP = "-"
_LONGEST = 2_000


class Figure(Struct, frozen=True):
    """A count; with `more`, a lower bound."""

    count: int
    more: bool = False


def at_most(count: int | None, most: int) -> Figure | None:
    """Return the figure of a count that ended at `most` + 1; None for no count."""
    if count is None:
        return None
    return Figure(most, more=True) if count > most else Figure(count)


class Paging(Struct, frozen=True):
    """The addresses of other pages of a list, "" for none; and how many entries all pages have.

    `total` is None where they are not counted.
    """

    first: str = ""
    previous: str = ""
    next: str = ""
    total: Figure | None = None


TIME = "time"
"""The name of a column of times."""


class Heading(Struct, frozen=True):
    """The heading of a column that sorts its list.

    `url` shows the list sorted by it, the other way round where it is already. `direction` is that
    of the shown list, as in `aria-sort`; "" if it is sorted by another column.
    """

    url: str
    direction: str = ""


def sort_headings(
    address: str, said: Mapping[str, str], order: str, columns: Mapping[str, tuple[str, str]]
) -> dict[str, Heading]:
    """Return the headings by column.

    `columns` has the orders of each column, ascending and descending; `order` is that of the shown
    list. A list of times begins with the latest, any other ascending. `said` are the other
    parameters of the list.
    """
    headings: dict[str, Heading] = {}
    for column, orders in columns.items():
        first, second = orders[::-1] if column == TIME else orders
        chosen = second if order == first else first
        direction = dict(zip(orders, ("ascending", "descending"), strict=True)).get(order, "")
        headings[column] = Heading(_address(address, {**said, "sort": chosen}), direction)
    return headings


ONE_PAGE = Paging()
"""A list without other pages."""


def pages_beside(
    address: str,
    said: Mapping[str, str],
    query: Form,
    more: str,
    *,
    total: Figure | None = None,
    name: str = "after",
) -> Paging:
    """Return the pages beside the one that `query` asked for.

    `said` are the other parameters of the list, `more` the cursor of the next page, "" for none. A
    cursor leads forward only, so the address has those of the pages before it in `back`, as many as
    fit; the first of them is `_GAP` where some did not.
    """
    here, back = query.get(name) or "", (query.get("back") or "")[:_LONGEST]
    trail = back.split(_APART) if back and here else []

    def page(after: str, before: list[str]) -> str:
        return _address(address, {**said, name: after, "back": _APART.join(before)})

    first = page("", []) if here else ""
    previous = page(trail[-1], trail[:-1]) if trail else first
    following = page(more, _shortened([*trail, here]) if here else []) if more else ""
    return Paging(first, "" if trail[-1:] == [_GAP] else previous, following, total)


def _address(address: str, parameters: Mapping[str, str]) -> str:
    text = urlencode({word: value for word, value in parameters.items() if value})
    return f"{address}?{text}" if text else address


def _shortened(trail: list[str]) -> list[str]:
    while len(_APART.join(trail)) > _LONGEST:
        trail = [_GAP, *trail[2:]]
    return trail
