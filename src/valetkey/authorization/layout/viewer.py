"""For whom a page is rendered: language, and how to change it; navigation, time zone."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote_plus, urlsplit

from msgspec import Struct

from valetkey.authorization.layout.addresses import safe_return_path
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.layout.language import (
    ENGLISH,
    LANGUAGES,
    Language,
    accepted,
    chosen,
    listed,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.csrf import check_origin
from valetkey.config.agreement import is_loopback
from valetkey.config.load import USUAL_FILE
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.kernel.url import origin
from valetkey.web.body import read_form
from valetkey.web.exchange import Pairs, Request, Response, redirect

CHOICE = "valetkey-language"
"""The cookie of a chosen language. It is not secret, and at worst shows another language."""

ASKED = "valetkey-ui-locales"
"""The cookie with the language that an app requested, kept until the user returns to it."""

_YEAR = 31_536_000
_HOUR = 3_600
_LONGEST = 8_000
_UI_LOCALES = re.compile(r"(?:^|&)ui_locales=([A-Za-z0-9+%-]{0,1000})(?=&|$)")
# A path here with its query; a second slash or a backslash would make it another server's.
_OURS = frozenset(("interaction", "link", "app", "before", "kind", "act", "show"))
_PLAIN = re.compile(r"[A-Za-z0-9._~-]{1,7500}", re.ASCII)
_HERE = re.compile(r"/(?![/\\])[!-\[\]-~]*")


def language_of(
    request: Request, user: User | None = None, languages: Sequence[Language] = LANGUAGES
) -> Language:
    """Return the language of the page.

    In this order: the app's `ui_locales`, the visitor's choice, the account's, the browser's.
    """
    for ranges in _wanted(request, user):
        language = chosen(ranges, languages)
        if language is not None:
            return language
    return ENGLISH


def _wanted(request: Request, user: User | None) -> Iterator[Sequence[str]]:
    yield _in_query(request)
    yield _in_cookie(request, ASKED)
    yield _in_cookie(request, CHOICE)
    if user is not None and user.claims.locale:
        yield (user.claims.locale,)
    yield accepted(request.headers.get("accept-language"))


def here(request: Request) -> str:
    """Return the current path, for returning to it; "" if the page cannot be opened by GET.

    Of its query only what this server's pages put there: nothing that a request added appears on
    the page.
    """
    kept = [pair for pair in request.query.split("&") if _is_ours(pair)]
    address = f"{request.path}?{'&'.join(kept)}" if kept else request.path
    return address if _is_here(address) else ""


def _is_ours(pair: str) -> bool:
    name, _, value = pair.partition("=")
    if name == "to":
        return bool(safe_return_path(unquote_plus(value)))
    return name in _OURS and _PLAIN.fullmatch(value) is not None


def requested_languages_cookie(
    ui_locales: str | None, request: Request, languages: Sequence[Language], *, secure: bool
) -> Pairs:
    """Return the header that stores or clears the languages that the app requested."""
    language = chosen(listed(ui_locales), languages)
    if language is not None:
        return (_cookie(ASKED, language.tag, "/oauth", _HOUR, secure=secure),)
    if request.cookie(ASKED) is not None:
        return (_forget(secure=secure),)
    return ()


def requested_language(request: Request, languages: Sequence[Language], *, secure: bool) -> Pairs:
    """Keep the language of a page that was requested with `ui_locales` in its own URL."""
    tag = _in_query(request)
    return (
        requested_languages_cookie(" ".join(tag), request, languages, secure=secure) if tag else ()
    )


class LanguageEndpoint(Struct, frozen=True):
    """The switch at the foot of every page. It changes nothing but a cookie, so it has no token."""

    brands: CurrentBrand
    issuer: str

    async def post(self, request: Request) -> Response:
        """Store the choice and go back; an unknown language is ignored."""
        check_origin(request.headers, origin(self.issuer))
        form = read_form(request.body, opaque=("to",))
        to = form.get("to") or "/"
        language = chosen((form.get("language") or "",), self.brands.current.languages)
        secure = self.issuer.startswith("https://")
        kept: Pairs = ()
        if language is not None:
            # A later choice of the user overrides the language that an app requested.
            choice = _cookie(CHOICE, language.tag, "/", _YEAR, secure=secure)
            kept = (choice, _forget(secure=secure))
        return redirect(_without_ui_locales(to) if _is_here(to) else "/", kept)


def _in_query(request: Request) -> Sequence[str]:
    match = _UI_LOCALES.search(request.query)
    return listed(unquote_plus(match[1])) if match else ()


def _in_cookie(request: Request, name: str) -> Sequence[str]:
    value = request.cookie(name)
    return (value,) if value else ()


def _is_here(address: str) -> bool:
    return len(address) <= _LONGEST and _HERE.fullmatch(address) is not None


def _without_ui_locales(address: str) -> str:
    path, _, query = address.partition("?")
    rest = "&".join(pair for pair in query.split("&") if not pair.startswith("ui_locales="))
    return f"{path}?{rest}" if rest else path


def _forget(*, secure: bool) -> tuple[str, str]:
    return _cookie(ASKED, "", "/oauth", 0, secure=secure)


def _cookie(name: str, value: str, path: str, lasts: int, *, secure: bool) -> tuple[str, str]:
    end = "; Secure" if secure else ""
    return (
        "set-cookie",
        f"{name}={value}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Lax{end}",
    )


class Viewer(Struct, frozen=True):
    """The visitor: their language, and the areas that their navigation shows."""

    language: Language = ENGLISH
    #: The other languages that they can choose.
    languages: tuple[Language, ...] = LANGUAGES
    #: The URL of the page, to return to it in another language; "" for none.
    here: str = ""
    #: The signed-in user; None on pages for visitors.
    user: CurrentUser | None = None
    #: The path of the picture that they uploaded; "" for none.
    picture: str = ""
    #: Whether they may register apps.
    develops: bool = False
    #: Whether they have a role in running this server.
    administers: bool = False
    #: Time zone in which times are shown, such as Europe/Berlin; "" if unknown.
    zone: str = ""
    #: The argument of `--config` in commands for this server; "" if they work without.
    configuration: str = ""

    def command(self, rest: str) -> str:
        """Return a command for this server: `valetkey`, `rest` and the configuration it needs."""
        named = f" --config {self.configuration}" if self.configuration else ""
        return f"valetkey {rest}{named}"


ANYBODY = Viewer()
"""An anonymous visitor."""


class ServerConfiguration(Struct, frozen=True):
    """The configuration file of this server; `path` is "" where commands find it by themselves."""

    path: str = ""
    #: Everyone who reaches the server is on its machine.
    is_local: bool = False

    def shown(self, *, administers: bool) -> str:
        """Return the value for `--config` on a page: the path, quoted for a shell, or FILE.

        Paths of a public server are shown to administrators only.
        """
        if not self.path:
            return ""
        return shlex.quote(self.path) if administers or self.is_local else "FILE"


UNNAMED = ServerConfiguration()
"""No configuration has to be named."""


def configuration_of(settings: Settings) -> ServerConfiguration:
    """Return the configuration of a server with these settings and this working directory."""
    file = settings.source.file
    if file is None or file == Path.cwd() / USUAL_FILE:
        return UNNAMED
    host = urlsplit(settings.authorization.url).hostname or ""
    return ServerConfiguration(str(file), is_loopback(host))


def viewer_of(
    request: Request,
    user: User | None = None,
    *,
    languages: Sequence[Language] = LANGUAGES,
    configuration: ServerConfiguration = UNNAMED,
    develops: bool = False,
    picture: str = "",
) -> Viewer:
    """Return the visitor in one of `languages`; `user` is the signed-in user, if any.

    `develops`: they may register apps. `picture` is the path of theirs, "" for none.
    """
    administers = user is not None and user.role is not None
    return Viewer(
        language=language_of(request, user, languages),
        languages=tuple(languages),
        here=here(request),
        user=None if user is None else CurrentUser(user.username, user.name, user.email),
        picture=picture,
        develops=develops,
        administers=administers,
        zone="" if user is None else user.claims.zoneinfo,
        configuration=configuration.shown(administers=administers),
    )


def content_language(viewer: Viewer) -> Pairs:
    """Return the Content-Language header."""
    return (("content-language", viewer.language.tag),)


class MenuItem(Struct, frozen=True):
    """A page of the navigation. `path` may have arguments in braces; `title` is untranslated."""

    path: str
    title: str
    #: Whether this page, or one below it, is shown.
    current: bool = False
    #: The heading above it, untranslated; "" for none.
    section: str = ""


class Navigation(Struct, frozen=True):
    """The `page_title` and the `menu` of the templates of an area."""

    title: str = ""
    menu: tuple[MenuItem, ...] = ()
    #: The page of the documentation, "" for none.
    docs: str = ""
    #: The address of the search of the area, "" for none.
    search: str = ""

    @property
    def current(self) -> str:
        """The path of the current page; "" if it is on no menu."""
        return next((item.path for item in self.menu if item.current), "")


NOWHERE = Navigation()
"""For pages that are in no area."""


class DeclaredPage(Protocol):
    """A page's declared place in the navigation."""

    @property
    def path(self) -> str:
        """The path, with arguments in braces."""
        ...

    @property
    def title(self) -> str:
        """The title, translatable; "" for a page whose template has one."""
        ...

    @property
    def nav(self) -> bool | str:
        """Whether the navigation of its area leads to it; a text is the heading above it."""
        ...

    @property
    def under(self) -> str:
        """The path of the page that is current in the navigation; "" for the nearest above."""
        ...

    @property
    def docs(self) -> str:
        """The page of the documentation about it and what is below it; "" for that above it."""
        ...

    @property
    def searches(self) -> bool:
        """Whether it is the search of its area."""
        ...


class Menu:
    """The menu of an area, made once for all of its pages."""

    def __init__(self, pages: Sequence[DeclaredPage]) -> None:
        """List the pages with a place in the navigation, in their order."""
        self._listed = tuple(page for page in pages if page.nav)
        self._paths = {page.path: page.path for page in self._listed}
        self._search = next((page.path for page in pages if page.searches), "")
        self._docs = {page.path: page.docs for page in pages if page.docs}
        # Most pages are not listed: they share what the page above them shows.
        self._shared: dict[str, Navigation] = {}

    def navigation(self, page: DeclaredPage | None = None) -> Navigation:
        """Return the navigation with this page highlighted, None for the area's front page."""
        if page is None:
            return self._at("")
        return replace(self._at(page.under or _nearest(self._paths, page.path)), title=page.title)

    def _at(self, current: str) -> Navigation:
        if current not in self._shared:
            items = tuple(_item(page, current) for page in self._listed)
            docs = _nearest(self._docs, current)
            self._shared[current] = Navigation("", items, docs, self._search)
        return self._shared[current]


def _item(page: DeclaredPage, current: str) -> MenuItem:
    section = page.nav if isinstance(page.nav, str) else ""
    return MenuItem(page.path, page.title, page.path == current, section)


def _nearest(values: Mapping[str, str], path: str) -> str:
    """Return the value of the path, or of the nearest path above it that has one; "" for none."""
    while path and path not in values:
        path = path.rpartition("/")[0]
    return values.get(path, "")
