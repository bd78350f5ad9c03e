"""The console's lists of objects: each is a declaration, and one template draws them all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.admin.administrator import AdminRequest
from valetkey.authorization.site.admin.saved_filters import SavedPart, saved_part
from valetkey.authorization.site.admin.selected import Selection
from valetkey.authorization.site.page import (
    ONE_PAGE,
    TIME,
    Heading,
    Paging,
    at_most,
    pages_beside,
    sort_headings,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.web.body import Form, read_query

_NOTHING: Mapping[str, str] = {}

Tone = Literal["", "good", "note", "alarm"]


class Part(Struct, frozen=True):
    """A value as a page shows it.

    Text of kind `text` was written by users, `words` are translated and filled with `values`.
    `badge` is a state in a word, `code` what programs read, `copy` the same with a button,
    `duration` and `number` are `count` in seconds and things, `progress` is a bar that is labelled
    with the words in `text`, `count` of the value `total`. `since` is a time relative to now,
    `exact` in full, after the words in `text`, maybe `from` an IP address. `small` is the word of
    the protocol, which is shown beside it.
    """

    kind: Literal[
        "text", "words", "badge", "code", "copy", "duration", "number", "progress", "since", "exact"
    ] = "text"
    text: str = ""
    values: Mapping[str, str | int] = _NOTHING
    url: str = ""
    when: When | None = None
    ip_address: str = ""
    small: str = ""
    tone: Tone = ""
    count: int = 0


def text(value: str, url: str = "") -> Part:
    """Return what a user wrote, such as a name; with `url` it is a link."""
    return Part("text", value, url=url)


def words(value: str, small: str = "", url: str = "", **values: str | int) -> Part:
    """Return a translatable text with texts and numbers in it, and the protocol's word for it."""
    return Part("words", value, values, url=url, small=small)


def badge(word: str, tone: Tone = "") -> Part:
    """Return a state: a translatable word and its colour."""
    return Part("badge", word, tone=tone)


ACTIVE = badge(translatable("Active"), "good")
FAILING = badge(translatable("Failing"), "alarm")
DISABLED = badge(translatable("Disabled"), "alarm")


def code(value: str) -> Part:
    """Return what programs read."""
    return Part("code", value)


def since(when: When, before: str = "", ip_address: str = "") -> Part:
    """Return a time relative to now, after the translatable text `before`."""
    return Part("since", before, when=when, ip_address=ip_address)


def since_or_none(at: int | None, now: Instant) -> Part | None:
    """Return a time relative to now, None for none."""
    return None if at is None else since(When(Instant(at), now))


def exact(when: When, before: str = "") -> Part:
    """Return a time in full, in the place of `%(moment)s` in the translatable text, if any."""
    return Part("exact", before, when=when)


class LineButton(Struct, frozen=True):
    """A button of a line: its title, and the sentence with `%(name)s` that is read out.

    It leads to `url`; with `fields` it posts them there.
    """

    url: str
    title: str
    label: str
    name: str
    fields: tuple[tuple[str, str], ...] = ()
    id: str = ""


class Line(Struct, frozen=True):
    """A related object: its name, what is beside and below it, and a button."""

    name: Part
    beside: tuple[Part, ...] = ()
    below: tuple[Part, ...] = ()
    act: LineButton | None = None


class Row(Struct, frozen=True):
    """An object in a list: the value that selects it, its name and address, and what it is.

    Each of the cells is a column; `below` is under the name.
    """

    value: str
    name: str
    url: str
    cells: tuple[tuple[Part, ...], ...]
    below: tuple[Part, ...] = ()


class Choice(Struct, frozen=True):
    """A filter of a list: the parameter, its label, and value and label of each choice.

    The first choice is the one without the parameter.
    """

    name: str
    label: str
    options: tuple[tuple[str, str], ...]


class ListWords(Struct, frozen=True):
    """What a list says, all translatable.

    `empty_title` and `empty_text` are shown where there is no object at all, with the button `new`;
    `none_found` and `show_all` where a search or filters found none. `lead` is what the list is,
    filled with `values`.
    """

    caption: str
    new: str
    empty_title: str
    empty_text: str
    none_found: str = ""
    show_all: str = ""
    selected: str = ""
    search_hint: str = ""
    lead: str = ""
    values: Mapping[str, str | int] = _NOTHING


def unsorted(*titles: str) -> tuple[tuple[str, None], ...]:
    """Return columns with these titles, by which a list does not sort."""
    return tuple((title, None) for title in titles)


class ObjectList(Struct, frozen=True):
    """A page of a list. The form uses GET with `q`, `sort` and the filters."""

    template: ClassVar[str] = "admin/objects.html"
    scripts: ClassVar[tuple[str, ...]] = ("select.js",)

    action: str
    words: ListWords
    rows: tuple[Row, ...]
    #: The columns: title and, where it sorts, its heading.
    columns: tuple[tuple[str, Heading | None], ...]
    text: str = ""
    longest: int = 0
    filters: tuple[Choice, ...] = ()
    #: The chosen values, "" for all.
    chosen: Mapping[str, str] = _NOTHING
    paging: Paging = ONE_PAGE
    saved: SavedPart | None = None
    done: str = ""
    #: Id, title and address of other links above the list.
    links: tuple[tuple[str, str, str], ...] = ()
    #: The page that makes one; "" if the role may not.
    new_url: str = ""
    #: The field of the selection, and title and address of what can be done with those selected.
    field: str = ""
    actions: tuple[tuple[str, str], ...] = ()
    #: What is to be known about the list, each a sentence.
    notes: tuple[Part, ...] = ()
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None


class Asked(Struct, frozen=True):
    """What the address of a list asks for: a text, choices by name, an order and a cursor."""

    query: Form
    text: str
    chosen: Mapping[str, str]
    order: str
    after: str

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the address, without the cursor."""
        others = {name: value for name, value in self.chosen.items() if name != "sort"}
        return {"q": self.text, **others, "sort": self.chosen.get("sort", "")}


class ListDeclaration(Struct, frozen=True):
    """A list of objects: its address, columns, filters, orders and words.

    `name` is that of its saved filters, "" for none. `columns` have the orders by which they sort,
    ascending and descending, or none. The first of `orders` is that of a list without `sort`.
    `longest` is the number of characters that can be searched, 0 for a list without a search.
    """

    address: str
    words: ListWords
    columns: tuple[tuple[str, tuple[str, str] | None], ...]
    name: str = ""
    longest: int = 0
    filters: tuple[Choice, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    most_counted: int = 10_000
    new_url: str = ""
    permission: Permission = Permission.READ
    selection: Selection | None = None

    def read(self, request: AdminRequest) -> Asked:
        """Read the address. Unknown values of filters and orders are ignored."""
        query = read_query(request.request.query, opaque=("q",))
        parameters = {choice.name: query.get(choice.name) or "" for choice in self._choices}
        options = {choice.name: dict(choice.options) for choice in self._choices}
        chosen = {
            name: value if value in options[name] else "" for name, value in parameters.items()
        }
        default = self.orders[0][0] if self.orders else ""
        if chosen.get("sort") == default:
            chosen["sort"] = ""
        text = (query.get("q") or "").strip()[: self.longest]
        order = chosen.get("sort") or default
        return Asked(query, text, chosen, order, query.get("after") or "")

    def saved(self, tx: Transaction, request: AdminRequest, query: Asked) -> SavedPart:
        """Return what the user saved for this list."""
        return saved_part(tx, request, self.name, query.parameters)

    def whole(
        self,
        rows: Iterable[Row],
        *,
        may: bool,
        done: str = "",
        links: tuple[tuple[str, str, str], ...] = (),
        notes: tuple[Part, ...] = (),
    ) -> ObjectList:
        """Return the page with all objects, without a search; `may` is whether one can be made."""
        return ObjectList(
            self.address,
            self.words,
            tuple(rows),
            tuple((title, None) for title, _ in self.columns),
            done=done,
            links=links,
            new_url=self.new_url if may else "",
            notes=notes,
        )

    def page(
        self,
        request: AdminRequest,
        query: Asked,
        rows: Sequence[Row],
        more: str = "",
        count: int | None = None,
        *,
        saved: SavedPart | None = None,
        done: str = "",
        links: tuple[tuple[str, str, str], ...] = (),
        sorts: bool = True,
    ) -> ObjectList:
        """Return the page with these objects; `more` is the cursor of the next one.

        `count` is that of all objects, at most one more than are counted. A list that does not
        `sorts` has an order of its own, as the results of a search can have.
        """
        parameters, may = query.parameters, request.permissions.allow(self.permission)
        orders = {
            TIME if title == self.columns[-1][0] else title: pair
            for title, pair in self.columns
            if pair is not None and sorts
        }
        headings = sort_headings(self.address, parameters, query.order, orders)
        named = {**headings, self.columns[-1][0]: headings.get(TIME)}
        total = at_most(count, self.most_counted)
        return ObjectList(
            self.address,
            self.words,
            tuple(rows),
            tuple((title, named.get(title)) for title, _ in self.columns),
            query.text,
            self.longest,
            self._choices if sorts else self.filters,
            query.chosen,
            pages_beside(self.address, parameters, query.query, more, total=total),
            saved,
            done,
            links,
            self.new_url if may else "",
            self.selection.field if self.selection else "",
            self.selection.offers(request.permissions) if self.selection else (),
        )

    @property
    def _choices(self) -> tuple[Choice, ...]:
        if not self.orders:
            return self.filters
        return (Choice("sort", translatable("Sort by"), self.orders), *self.filters)


NEWEST_FIRST = ("newest", translatable("Newest first"))
OLDEST_FIRST = ("oldest", translatable("Oldest first"))
BY_NAME = ("name", translatable("Name"))
BY_NAME_DESCENDING = ("-name", translatable("Name, descending"))
TIMES = ("oldest", "newest")
NAMES = ("name", "-name")
ALL = ("", translatable("All"))
