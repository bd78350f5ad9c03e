"""For whom a page is rendered: language, areas of the navigation, time zone."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from valetkey.authorization.layout.language import ENGLISH, LANGUAGES, Language
from valetkey.authorization.layout.language_choice import here, language_of
from valetkey.authorization.model.account.user import User
from valetkey.config.agreement import is_loopback
from valetkey.config.load import USUAL_FILE
from valetkey.config.sections.portal import PortalSettings, Registrants
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.web.exchange import Pairs, Request


class Viewer(Struct, frozen=True):
    """The visitor: their language, and the areas that their navigation shows."""

    language: Language = ENGLISH
    #: The other languages that they can choose.
    languages: tuple[Language, ...] = LANGUAGES
    #: The URL of the page, to return to it in another language; "" for none.
    here: str = ""
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


class Configuration(Struct, frozen=True):
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


UNNAMED = Configuration()
"""No configuration has to be named."""


def configuration_of(settings: Settings) -> Configuration:
    """Return the configuration of a server with these settings and this working directory."""
    file = settings.source.file
    if file is None or file == Path.cwd() / USUAL_FILE:
        return UNNAMED
    host = urlsplit(settings.authorization.url).hostname or ""
    return Configuration(str(file), is_loopback(host))


def viewer_of(
    request: Request,
    user: User | None = None,
    portal: PortalSettings | None = None,
    *,
    languages: Sequence[Language] = LANGUAGES,
    configuration: Configuration = UNNAMED,
) -> Viewer:
    """Return the visitor in one of `languages`; `user` is the signed-in user, if any."""
    administers = user is not None and user.role is not None
    return Viewer(
        language=language_of(request, user, languages),
        languages=tuple(languages),
        here=here(request),
        develops=user is not None and portal is not None and is_developer(user, portal),
        administers=administers,
        zone="" if user is None else user.claims.zoneinfo,
        configuration=configuration.shown(administers=administers),
    )


def content_language(viewer: Viewer) -> Pairs:
    """Return the Content-Language header."""
    return (("content-language", viewer.language.tag),)


def is_developer(user: User, portal: PortalSettings) -> bool:
    """Return whether the user sees the developer portal: they have an app, or may register one."""
    if portal.who is Registrants.EVERYONE:
        return True
    if portal.who is Registrants.VERIFIED and user.email_verified_at is not None:
        return True
    return user.develops


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


class Menu:
    """The menu of an area, made once for all of its pages."""

    def __init__(self, pages: Sequence[DeclaredPage]) -> None:
        """List the pages with a place in the navigation, in their order."""
        self._listed = tuple(page for page in pages if page.nav)
        self._paths = {page.path: page.path for page in self._listed}
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
            self._shared[current] = Navigation("", items, _nearest(self._docs, current))
        return self._shared[current]


def _item(page: DeclaredPage, current: str) -> MenuItem:
    section = page.nav if isinstance(page.nav, str) else ""
    return MenuItem(page.path, page.title, page.path == current, section)


def _nearest(values: Mapping[str, str], path: str) -> str:
    """Return the value of the path, or of the nearest path above it that has one; "" for none."""
    while path and path not in values:
        path = path.rpartition("/")[0]
    return values.get(path, "")
