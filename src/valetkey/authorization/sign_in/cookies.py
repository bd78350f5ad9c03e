"""The two cookies of a browser: whose session it is, and which browser (security 22)."""

from dataclasses import dataclass

from valetkey.kernel.secret import Fingerprint, FingerprintKey, Prefix, Secret, well_formed
from valetkey.web.exchange import Request

Header = tuple[str, str]

BROWSER = "browser"
"""The purpose under which browser cookies are fingerprinted."""


@dataclass(frozen=True, slots=True)
class Cookies:
    """How they are called and sent: `__Host-` and Secure, but on http, which is loopback only."""

    secure: bool
    key: FingerprintKey

    @property
    def session_name(self) -> str:
        """The cookie that says who is signed in."""
        return "__Host-session" if self.secure else "session"

    @property
    def browser_name(self) -> str:
        """The cookie that interactions and forms are bound to."""
        return "__Host-browser" if self.secure else "browser"

    def session(self, request: Request) -> str:
        """The session cookie, "" for none that could be one."""
        return _read(request, self.session_name, Prefix.SESSION)

    def browser(self, request: Request) -> str:
        """The browser cookie, "" for none that could be one."""
        return _read(request, self.browser_name, Prefix.BROWSER)

    def browser_print(self, browser: str) -> Fingerprint | None:
        """What an interaction keeps of the browser it began in."""
        return self.key.of(BROWSER, browser) if browser else None

    def set_session(self, cookie: Secret) -> Header:
        """Remember the session until the browser is closed or the server ends it."""
        return self._set(self.session_name, cookie.reveal())

    def clear_session(self) -> Header:
        """Forget the session."""
        return self._set(self.session_name, "", "; Max-Age=0")

    def set_browser(self, cookie: Secret) -> Header:
        """Recognise the browser until it is closed."""
        return self._set(self.browser_name, cookie.reveal())

    def _set(self, name: str, value: str, more: str = "") -> Header:
        # Lax, not Strict: people come to the authorization endpoint from other sites.
        secure = "; Secure" if self.secure else ""
        return "set-cookie", f"{name}={value}; Path=/{more}; HttpOnly; SameSite=Lax{secure}"


def _read(request: Request, name: str, prefix: Prefix) -> str:
    value = request.cookie(name)
    return value if value is not None and well_formed(prefix, value) else ""
