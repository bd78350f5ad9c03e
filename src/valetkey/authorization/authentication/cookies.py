"""Cookies for the session, the browser and the session state."""

from msgspec import Struct

from valetkey.kernel.secret import Fingerprint, FingerprintKey, Prefix, Secret, well_formed
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
        """Return the name of the session cookie."""
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
        return self.key.of(_STATE, session_id)

    def session(self, request: Request) -> str:
        """Return the session cookie; "" if it is missing or malformed."""
        return _read(request, self.session_name, Prefix.SESSION)

    def browser(self, request: Request) -> str:
        """Return the browser cookie; "" if it is missing or malformed."""
        return _read(request, self.browser_name, Prefix.BROWSER)

    def browser_fingerprint(self, browser: str) -> Fingerprint | None:
        """Return the browser's fingerprint, which binds interactions to it."""
        return self.key.of(BROWSER, browser) if browser else None

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

    what: str
    secure: bool

    @property
    def name(self) -> str:
        """The name of the cookie."""
        return f"__Host-{self.what}" if self.secure else f"valetkey-{self.what}"

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
