"""What the console's pages about one object are made of; one template draws them all."""

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.events.lines import EventRow
from valetkey.authorization.site.admin.objects import Line, Part
from valetkey.authorization.site.page import ONE_PAGE, Paging


class Fact(Struct, frozen=True):
    """A label, translatable unless it is `own` words of users, and its values."""

    label: str
    values: tuple[Part, ...]
    own: bool = False


class Adder(Struct, frozen=True):
    """The form below a list that adds to it. It posts `csrf`, the `fields` and the field `name`.

    The field is a choice if there are `options` (value and label, which users wrote), else a text.
    `title` is the label of the field, `hint`, `warning` and `fault` are translatable. `candidates`
    are what an ambiguous text can mean.
    """

    action: str
    id: str
    name: str
    title: str
    hint: str = ""
    options: tuple[tuple[str, str], ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    value: str = ""
    fault: str = ""
    warning: str = ""
    candidates: tuple[Line, ...] = ()
    submit: str = ""


class Related(Struct, frozen=True):
    """A list of what belongs to the object; `empty` is shown for none.

    `add_url` and `add_title` are a page that adds one, `more_url` and `more_title` one that lists
    all.
    """

    id: str
    title: str
    lines: tuple[Line, ...]
    empty: str = ""
    hint: str = ""
    adder: Adder | None = None
    add_url: str = ""
    add_title: str = ""
    more_url: str = ""
    more_title: str = ""
    paging: Paging = ONE_PAGE


class Activity(Struct, frozen=True):
    """The latest events about the object, and the page of all."""

    events: tuple[EventRow, ...]
    url: str = ""


class ObjectPage(Struct, frozen=True):
    """One object: what it is, its state, its facts, what belongs to it, and what can be done.

    `above` is the title of its list and `list_url` its address. `ways` are the operations that
    apply: the dangerous ones are at the end of the page, each with what it does. `links` are slug,
    title and address of pages about it.
    """

    template: ClassVar[str] = "admin/object.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    list_url: str
    above: str
    name: str
    state: tuple[Part, ...] = ()
    #: What the state means, each a sentence; those with "alarm" need something to be done.
    notes: tuple[Part, ...] = ()
    description: str = ""
    done: str = ""
    #: Label and number.
    figures: tuple[tuple[str, int], ...] = ()
    facts: tuple[Fact, ...] = ()
    #: Facts that are seldom needed.
    details: tuple[Fact, ...] = ()
    links: tuple[tuple[str, str, str], ...] = ()
    ways: tuple[Offer, ...] = ()
    related: tuple[Related, ...] = ()
    activity: Activity | None = None

    @property
    def title(self) -> str:
        """The title of the page, which is the name of the object."""
        return self.name


def facts(listed: Iterable[tuple[str, Part | None]]) -> tuple[Fact, ...]:
    """Return those facts that have a value."""
    return tuple(Fact(label, (value,)) for label, value in listed if value is not None)
