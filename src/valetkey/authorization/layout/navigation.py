"""The navigation of an area: its pages in their order, and which of them is shown."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MenuItem:
    """A page of the navigation. `path` may have arguments in braces; `title` is untranslated."""

    path: str
    title: str
    #: The page that is shown is this one, or one below it.
    current: bool = False


@dataclass(frozen=True, slots=True)
class Navigation:
    """What the templates of an area know as `page_title` and `menu`."""

    title: str = ""
    menu: tuple[MenuItem, ...] = ()


NOWHERE = Navigation()
"""For pages that are in no area."""
