"""Browsers: their cookies, their sessions, and the CSRF tokens of their forms."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager

from msgspec import Struct

from valetkey.authorization.authentication.session import LiveSession, SignedIn, find_present
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.csrf import check_csrf_token, check_origin, csrf_token
from valetkey.authorization.storage.records import ORIGIN, RequestOrigin
from valetkey.authorization.storage.transaction import Store
from valetkey.config.sections.people import AdministrationSettings
from valetkey.config.settings import SessionSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import days
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    Secret,
    fresh_secret,
    same,
    to_base64url,
    well_formed,
)
from valetkey.kernel.url import origin
from valetkey.web.body import Form
from valetkey.web.client_address import plain_address
from valetkey.web.exchange import Pairs, Request

Header = tuple[str, str]

BROWSER = "browser"
"""The purpose under which browser cookies are fingerprinted."""

_STATE = "browser-state"


class Cookies(Struct, frozen=True):
    """Names and attributes: `__Host-` and Secure, except on http, which is loopback only.

    Cookies ignore ports: on loopback an app on another port shares them, and frameworks name theirs
    `session`. Ours therefore contain our name there.
    """

    secure: bool
    key: FingerprintKey

    @property
    def session_name(self) -> str:
        """The name of the session cookie, with `__Host-` where cookies are `Secure`."""
        return "__Host-session" if self.secure else "valetkey-session"

    @property
    def browser_name(self) -> str:
        """Return the name of the cookie that interactions and forms are bound to."""
        return "__Host-browser" if self.secure else "valetkey-browser"

    @property
    def state_name(self) -> str:
        """Return the name of the cookie that shows our frame's scripts a changed session."""
        return "__Host-browser-state" if self.secure else "valetkey-browser-state"

    @property
    def step(self) -> "InternalCookie":
        """The user who entered the right password, while the second factor is pending."""
        return InternalCookie("step", self.secure)

    @property
    def device(self) -> "InternalCookie":
        """A remembered device."""
        return InternalCookie("device", self.secure)

    @property
    def known_browser(self) -> "InternalCookie":
        """The accounts that signed in with this browser."""
        return InternalCookie("familiar", self.secure)

    def browser_state(self, session_id: str) -> str:
        """Return the session's part of `session_state` (Session Management section 4.2)."""
        return self.key.fingerprint(_STATE, session_id)

    def session(self, request: Request) -> str:
        """Return the session cookie; "" if it is missing or malformed."""
        return _read(request, self.session_name, Prefix.SESSION)

    def browser(self, request: Request) -> str:
        """Return the browser cookie; "" if it is missing or malformed."""
        return _read(request, self.browser_name, Prefix.BROWSER)

    def browser_fingerprint(self, browser: str) -> Fingerprint | None:
        """Return the browser's fingerprint, which binds interactions to it."""
        return self.key.fingerprint(BROWSER, browser) if browser else None

    def begin(self, cookie: Secret, session_id: str) -> Pairs:
        """Set the cookies of a session, until the browser closes or the server ends it."""
        state = self._set_state(self.browser_state(session_id))
        return self._set(self.session_name, cookie.reveal()), state

    def end(self) -> Pairs:
        """Delete the session's cookies."""
        state = self._set_state("", "; Max-Age=0")
        return self._set(self.session_name, "", "; Max-Age=0"), state

    def set_browser(self, cookie: Secret) -> Header:
        """Set the browser cookie until the browser is closed."""
        return self._set(self.browser_name, cookie.reveal())

    def _set(self, name: str, value: str, more: str = "") -> Header:
        # Lax, not Strict: users come to the authorization endpoint from other sites.
        secure = "; Secure" if self.secure else ""
        return "set-cookie", f"{name}={value}; Path=/{more}; HttpOnly; SameSite=Lax{secure}"

    def _set_state(self, value: str, more: str = "") -> Header:
        # None: the frame that reads it is embedded in another site's page. Browsers accept that
        # from https only; on loopback the other site is this site on another port.
        how = "SameSite=None; Secure" if self.secure else "SameSite=Lax"
        return "set-cookie", f"{self.state_name}={value}; Path=/{more}; {how}"


class InternalCookie(Struct, frozen=True):
    """A cookie for this server's own requests."""

    purpose: str
    secure: bool

    @property
    def name(self) -> str:
        """The name of the cookie, with `__Host-` where cookies are `Secure`."""
        return f"__Host-{self.purpose}" if self.secure else f"valetkey-{self.purpose}"

    def read(self, request: Request) -> str:
        """Return the value of the cookie, "" if missing; a client can forge it."""
        return request.cookie(self.name) or ""

    def set(self, value: str, lifetime: int = 0) -> Header:
        """Set the cookie for `lifetime` seconds, or until the browser is closed if that is 0."""
        return self._set(value, f"; Max-Age={lifetime}" if lifetime else "")

    def drop(self) -> Header:
        """Delete the cookie."""
        return self._set("", "; Max-Age=0")

    def _set(self, value: str, more: str) -> Header:
        secure = "; Secure" if self.secure else ""
        return (
            "set-cookie",
            f"{self.name}={value}; Path=/{more}; HttpOnly; SameSite=Lax{secure}",
        )


def _read(request: Request, name: str, prefix: Prefix) -> str:
    value = request.cookie(name)
    return value if value is not None and well_formed(prefix, value) else ""


LIFETIME = days(180)
"""How long a browser stays known after the last sign-in."""

_MOST = 5
_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}(?:\.[A-Za-z0-9_-]{43}){1,5}", re.ASCII)


class KnownBrowser(Struct, frozen=True):
    """The cookie of one browser, "" for none: a random name, and a mark for each account."""

    cookie: str
    key: FingerprintKey

    def mark(self, uid: Uid) -> str:
        """Return this browser's throttle name for the account; "" if it is not known."""
        if not _COOKIE.fullmatch(self.cookie):
            return ""
        name, *marks = self.cookie.split(".")
        own = self._mark_of(name, uid)
        return own if any(same(own, account_mark) for account_mark in marks) else ""

    def with_account(self, uid: Uid, random: Callable[[int], bytes]) -> str:
        """Return the cookie extended by an account that just signed in."""
        is_valid = bool(_COOKIE.fullmatch(self.cookie))
        name, *marks = self.cookie.split(".") if is_valid else (to_base64url(random(16)),)
        own = self._mark_of(name, uid)
        others = [account_mark for account_mark in marks if account_mark != own]
        return ".".join((name, own, *others[: _MOST - 1]))

    def _mark_of(self, name: str, uid: Uid) -> str:
        return self.key.fingerprint("familiar browser", f"{name} {uid}")


class Browsers(Struct, frozen=True):
    """Read and set the cookies of browsers, find their sessions, and check their forms.

    `issuer` is the URL of this server.
    """

    issuer: str
    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]
    sessions: SessionSettings
    administration: AdministrationSettings

    @property
    def cookies(self) -> Cookies:
        """The names and attributes of this server's cookies."""
        return Cookies(self.issuer.startswith("https://"), self.keyring.fingerprint_key)

    def known_browser(self, request: Request) -> KnownBrowser:
        """Return the accounts that this browser signed in to before."""
        return KnownBrowser(self.cookies.known_browser.read(request), self.keyring.fingerprint_key)

    def browser(self, request: Request) -> tuple[str, Pairs]:
        """Return the cookie of this browser, and the header that sets it if it has none yet."""
        sent_cookie = self.cookies.browser(request)
        if sent_cookie:
            return sent_cookie, ()
        cookie = fresh_secret(Prefix.BROWSER, self.random)
        return cookie.reveal(), (self.cookies.set_browser(cookie),)

    def csrf(self, browser: str, purpose: str, *about: str) -> str:
        """Return the token of a form in this browser."""
        return csrf_token(self.keyring.fingerprint_key, browser, purpose, *about)

    def check_form(
        self, request: Request, form: Form, browser: str, purpose: str, *about: str
    ) -> None:
        """Raise Refused (forbidden) unless the form came from a page of ours in this browser."""
        self.check_origin(request)
        expected = self.csrf(browser, purpose, *about)
        check_csrf_token(expected, form.all("csrf") if browser else ())

    def check_origin(self, request: Request) -> None:
        """Raise Refused (forbidden) for a request that the browser marks as cross-site."""
        check_origin(request.headers, origin(self.issuer))

    async def signed_in(self, request: Request, *, polled: bool = False) -> SignedIn | None:
        """Return the signed-in user of this browser, and record the visit once a minute.

        The visit of a `polled` request is not recorded: it came from a script and must not extend
        the session.
        """
        present = await self.present(request, "", polled=polled)
        return None if present is None else present.signed_in

    async def present(
        self, request: Request, client_id: str, *, polled: bool = False
    ) -> LiveSession | None:
        """Return the signed-in user, with their consent for this client."""
        cookie = self.cookies.session(request)
        if not cookie:
            return None
        key, sessions, now = self.keyring.fingerprint_key, self.sessions, request.at
        live_session = await self.store.read_one(
            lambda tx: find_present(tx, cookie, client_id, key, sessions, now)
        )
        if live_session is not None and not polled and live_session.signed_in.is_stale(now):
            seen = live_session.signed_in.session.id
            with coming_from(request):
                await self.store.write(
                    lambda tx: tx.sessions.touch(seen, tx.origin.address, now), done_by=USUAL_ACTOR
                )
        return live_session


@contextmanager
def coming_from(request: Request) -> Generator[None]:
    """Record this request as the origin of what is written in the block.

    For pages and the admin API: the protocol's endpoints record no origin of events, so that no
    token request writes more.
    """
    browser, system = browser_of(request.headers.get("user-agent") or "")
    before = ORIGIN.set(RequestOrigin(plain_address(request.address), browser, system))
    try:
        yield
    finally:
        ORIGIN.reset(before)


_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
# Browsers include each other's names: the first match is the most specific.
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "Mac"),
    ("X11; Cr", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_of(user_agent: str) -> tuple[str, str]:
    """Return the names of browser and system, each "" if unknown.

    Only a hint: clients can send any User-Agent.
    """
    return _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)


def _first(names: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in names if mark in text), "")
