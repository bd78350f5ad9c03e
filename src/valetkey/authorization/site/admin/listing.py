"""A list of declared things: the page that those without a page of their own share."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ListRow:
    """One thing: its name, the page that changes it ("" for none), a cell per column, its acts.

    `ways` are title and address of what can be done with it.
    """

    name: str
    url: str
    #: A cell may be several words, each of them translatable.
    cells: tuple[str | tuple[str, ...], ...]
    hint: str = ""
    ways: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list. Texts are translatable, names and cells are not.

    `links` are titles and addresses of pages that belong to it; `ways` are the row's last cell.
    """

    template: ClassVar[str] = "admin/listing.html"

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[ListRow, ...]
    new_title: str
    #: "" where the role may not.
    new_url: str
    empty_title: str
    empty_text: str
    links: tuple[tuple[str, str], ...] = ()
    done: str = ""
