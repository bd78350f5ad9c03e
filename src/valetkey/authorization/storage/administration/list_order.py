"""The orders of a list of named objects."""

from enum import StrEnum


class ListOrder(StrEnum):
    """An order of clients, groups or APIs; names are compared without regard to case."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"
    NAME_DESCENDING = "-name"


def order_in(text: str | None, usual: ListOrder) -> ListOrder:
    """Return the order of this name; the usual one for any other text."""
    return ListOrder(text) if text in set(ListOrder) else usual
