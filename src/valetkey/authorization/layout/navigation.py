"""The navigation of an area: its pages in order, and the current one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MenuItem:
    """A page of the navigation. `path` may have arguments in braces; `title` is untranslated."""

    path: str
    title: str
    #: The page that is shown is this one, or one below it.
    current: bool = False
    #: The heading above it, untranslated; "" for none.
    section: str = ""


@dataclass(frozen=True, slots=True)
class Navigation:
    """What the templates of an area know as `page_title` and `menu`."""

    title: str = ""
    menu: tuple[MenuItem, ...] = ()

    @property
    def current(self) -> str:
        """The path of the current page; "" if it is on no menu."""
        return next((item.path for item in self.menu if item.current), "")


NOWHERE = Navigation()
"""For pages that are in no area."""


class Declared(Protocol):
    """A page's declared place in the navigation."""

    @property
    def path(self) -> str:
        """Its path, with arguments in braces."""
        ...

    @property
    def title(self) -> str:
        """Its title, to be translated; "" for a page whose template has its own."""
        ...

    @property
    def nav(self) -> bool | str:
        """Whether the navigation of its area leads to it; a text is the heading above it."""
        ...

    @property
    def under(self) -> str:
        """The path of the page that is current in the navigation; "" for the nearest above."""
        ...


def navigation_of(pages: Sequence[Declared], page: Declared | None = None) -> Navigation:
    """The navigation of an area while this page of it is shown, None for its front page."""
    listed = [each for each in pages if each.nav]
    title = current = ""
    if page is not None:
        above = (each.path for each in listed if f"{page.path}/".startswith(f"{each.path}/"))
        title, current = page.title, page.under or max(above, key=len, default="")
    menu = tuple(
        MenuItem(
            each.path,
            each.title,
            each.path == current,
            each.nav if isinstance(each.nav, str) else "",
        )
        for each in listed
    )
    return Navigation(title, menu)
