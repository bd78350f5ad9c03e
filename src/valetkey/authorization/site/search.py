"""/admin/search: find users, apps, groups, settings, pages and what features add, in one place.

The page of results is also that of the developer portal. It works by itself; a script shows it as
a dialog on every page of its area.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import Match, SearchKind, matching_users
from valetkey.authorization.actions.inspection.refusals import refusal_of
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.language import translations
from valetkey.authorization.layout.viewer import MenuItem, language_of
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.operations.settings import READ_SETTINGS, SettingsShown
from valetkey.authorization.site.admin.administrator import AdminRequest, administrator, with_query
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.groups.groups import group_address
from valetkey.authorization.site.admin.server.settings import SETTINGS, contains
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import AnyPage, Figure, Outcome, Page, Show, at_most
from valetkey.authorization.storage.search import END, ClientFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.text import translatable
from valetkey.web.body import read_query
from valetkey.web.exchange import Request

SEARCH = "/admin/search"
SEARCH_TITLE = translatable("Search")

SHOWN = 5
"""Results of each kind that are shown at first."""

MOST = 50
"""Results of each kind that are counted."""

_LONGEST = 200
_PAGES = translatable("Pages")
FAILED_REQUESTS = translatable("Failed requests")


class ResultGroup(Struct, frozen=True):
    """The results of one kind. `more_url` lists all of them, "" if all are shown."""

    title: str
    matches: tuple[Match, ...]
    total: Figure
    more_url: str = ""


class SearchPage(Struct, frozen=True):
    """The context of search.html, in the frame of an area."""

    template: ClassVar[str] = "search.html"

    frame: str
    action: str
    text: str
    hint: str
    groups: tuple[ResultGroup, ...]
    longest: int = _LONGEST


class Texts(Struct, frozen=True):
    """Find words in texts of the catalogue, in the language of a visitor and in English."""

    translate: Callable[[str], str]
    words: Sequence[str]

    @classmethod
    def from_request(cls, text: str, request: Request, user: User) -> "Texts":
        """Return what finds all words of `text`."""
        translate = translations(language_of(request, user)).gettext
        return cls(translate, text.casefold().split())

    def are_in(self, *marked: str, own: str = "") -> bool:
        """Return whether every word is in these texts, or in `own`, which is not translated."""
        texts = [text for text in marked if text]
        searched = " ".join((own, *texts, *(self.translate(text) for text in texts))).casefold()
        return all(word in searched for word in self.words)


def searched_text(request: Request) -> str:
    """Return what is searched for: `q` of the address, "" for nothing that could be found."""
    text = (read_query(request.query, opaque=("q",)).get("q") or "").strip()[:_LONGEST]
    return text if text.isprintable() else ""


def group_of(title: str, matches: Sequence[Match], more_url: str = "") -> Iterator[ResultGroup]:
    """Yield the results of one kind; nothing without any. `more_url` is the list of all."""
    if not matches:
        return
    shown = SHOWN if more_url and len(matches) > SHOWN else MOST
    total = at_most(len(matches), MOST) or Figure(0)
    more = more_url if len(matches) > shown else ""
    yield ResultGroup(title, tuple(matches[:shown]), total, more)


def pages_in(texts: Texts, listed: Sequence[MenuItem]) -> Iterator[ResultGroup]:
    """Yield the pages of the navigation whose title or heading has the words."""
    matches = [
        Match(menu_item.title, menu_item.path, menu_item.section, translatable=True)
        for menu_item in listed
        if "{" not in menu_item.path and texts.are_in(menu_item.title, menu_item.section)
    ]
    yield from group_of(_PAGES, matches)


def _users(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    return [
        Match(it.name or it.username, user_address(it.uid), f"{it.username} · {it.email}")
        for it in matching_users(tx, text, limit=limit).users
    ]


def _apps(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    criteria = ClientFilter(text)
    named = [line for line in tx.client_search.named(text, limit) if criteria.takes(line)]
    # The index finds an app by its name among any number, the search only the newest.
    by_id = {line.id: line for line in (*named, *tx.client_search.page(criteria, END, limit).lines)}
    lines = list(by_id.values())[:limit]
    return [Match(it.name or it.id, client_address(it.id), it.id) for it in lines]


def _groups(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    groups = tx.groups.matching(text, limit)
    return [Match(it.name, group_address(it.name), it.description) for it in groups]


def _errors(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    refusal = refusal_of(tx, text)
    address = (
        with_query(ADDRESSES["admin_events"], {"person": refusal.reference}) if refusal else ""
    )
    return [Match(refusal.reference, address, refusal.description)][:limit] if refusal else ()


_KINDS = (
    SearchKind(FAILED_REQUESTS, _errors, ""),
    SearchKind(translatable("Users"), _users, ADDRESSES["admin_users"]),
    SearchKind(translatable("Apps"), _apps, ADDRESSES["admin_clients"]),
    SearchKind(translatable("Groups"), _groups, ADDRESSES["admin_groups"]),
)


class ConsoleSearch(Struct, frozen=True):
    """Search the console: its pages, what is administered, and errors by their reference."""

    services: Services
    kinds: tuple[SearchKind, ...]
    """Those of features."""
    listed: tuple[MenuItem, ...]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of results."""
        page = Page(
            SEARCH, administrator(), self.show, title=SEARCH_TITLE, under=SEARCH, searches=True
        )
        return (page,)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show what the administrator may see and the text finds; without a text, the pages."""
        text = searched_text(request.request)
        texts = Texts.from_request(text, request.request, request.user)
        groups = list(pages_in(texts, self.listed))
        if text:
            groups += await self.services.store.scan(lambda tx: self._find(tx, request, text))
            groups += await self._settings(request, texts, text)
        hint = translatable(
            "Users, apps, groups, APIs, settings and pages by their name; an error by its "
            "reference, such as VK-7Q2M-4D8K-1XWZ."
        )
        return Show(SearchPage("admin/frame.html", SEARCH, text, hint, tuple(groups)))

    def _find(self, tx: Transaction, request: AdminRequest, text: str) -> Sequence[ResultGroup]:
        may = require(tx, request.actor, Permission.READ)
        return [
            group
            for kind in (*_KINDS, *self.kinds)
            if may.allow(kind.permission)
            for group in group_of(
                kind.title,
                kind.find(tx, text, MOST + 1),
                with_query(kind.list_address, {"q": text}) if kind.list_address else "",
            )
        ]

    async def _settings(
        self, request: AdminRequest, texts: Texts, text: str
    ) -> Iterator[ResultGroup]:
        call = call_of(self.services, READ_SETTINGS, request.actor, request.now)
        items = (await value_of(call, SettingsShown)).items
        # Those whose explanation alone has the words follow.
        items = sorted(items, key=lambda it: not texts.are_in(it.label or "", own=it.path))
        matches = [
            Match(
                setting.label or setting.path,
                with_query(SETTINGS, {"q": setting.path}),
                setting.path if setting.label else "",
                translatable=bool(setting.label),
            )
            for setting in items
            if contains(setting, texts.translate, texts.words)
        ]
        title = translatable("Settings")
        return group_of(title, matches[: MOST + 1], with_query(SETTINGS, {"q": text}))
