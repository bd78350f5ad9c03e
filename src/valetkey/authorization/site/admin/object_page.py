"""What the console's pages about one object are made of; one template draws them all."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.site.admin.administrator import AdminRequest, with_query
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.events.lines import EventRow, names_in, rows_of
from valetkey.authorization.site.admin.objects import Line, Part
from valetkey.authorization.site.page import ONE_PAGE, Paging
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


class Fact(Struct, frozen=True):
    """A label, translatable unless it is `own` words of users, and its values."""

    label: str
    values: tuple[Part, ...]
    own: bool = False


class Adder(Struct, frozen=True):
    """The form below a list that adds to it. It posts `csrf`, the `fields` and the field `name`.

    The field is a choice if there are `options` (value and label, which users wrote), else a text.
    `title` is the label of the field, `hint`, `warning` and `fault` are translatable. `candidates`
    are what an ambiguous text can mean, `offered` values with their names for a text.
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
    offered: tuple[tuple[str, str], ...] = ()


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


class RecentEvents(Struct, frozen=True):
    """The latest events about the object, and the page of all."""

    events: tuple[EventRow, ...]
    url: str = ""


class ObjectPage(Struct, frozen=True):
    """One object: what it is, its state, its facts, what belongs to it, and what can be done.

    `above` is the title of its list, which is that of an object without a name, and `list_url` its
    address; both are "" for a page of the menu, whose name is translatable. `actions` are the
    operations that apply: the dangerous ones are at the end of the page, each with what it does.
    `links` are slug, title and address of pages about it.
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
    actions: tuple[Offer, ...] = ()
    related: tuple[Related, ...] = ()
    activity: RecentEvents | None = None
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None

    @property
    def title(self) -> str:
        """The title of the page, which is the name of the object if it has one."""
        return self.name or self.above


_EVENTS = 10


def activity_about(
    tx: Transaction, subject: str, now: Instant, kinds: Mapping[str, type[Event]]
) -> RecentEvents:
    """Return the latest events about an object, `KIND:ID`, and the page of all."""
    events = tx.event_search.page(EventFilter(subject=subject), END, _EVENTS)
    url = with_query(ADDRESSES["admin_events"], {"subject": subject})
    return RecentEvents(rows_of(events, names_in(tx, events), now, kinds), url)


async def read_activity(services: Services, request: AdminRequest, subject: str) -> RecentEvents:
    """Read `activity_about` in a transaction of its own. Raises Refused (forbidden)."""

    def read(tx: Transaction) -> RecentEvents:
        require(tx, request.actor, Permission.READ)
        return activity_about(tx, subject, request.now, services.kinds)

    return await services.store.scan(read)


def facts(listed: Iterable[tuple[str, Part | None]]) -> tuple[Fact, ...]:
    """Return those facts that have a value; an empty text is none."""
    written = ("text", "code", "copy")
    return tuple(
        Fact(label, (value,))
        for label, value in listed
        if value is not None and (value.text or value.kind not in written)
    )
