"""The language of a page, and POST /language, which changes it."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote_plus

from msgspec import Struct

from valetkey.authorization.layout.addresses import safe_return_path
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.layout.language import (
    ENGLISH,
    LANGUAGES,
    Language,
    accepted,
    chosen,
    listed,
)
from valetkey.authorization.model.account.user import User
from valetkey.authorization.protocol.csrf import check_origin
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
        found = chosen(ranges, languages)
        if found is not None:
            return found
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
    said = _in_query(request)
    return (
        requested_languages_cookie(" ".join(said), request, languages, secure=secure)
        if said
        else ()
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
