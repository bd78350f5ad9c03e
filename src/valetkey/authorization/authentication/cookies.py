"""The cookies of a browser: whose session, which browser, a mark for scripts (security 22)."""

from dataclasses import dataclass

from valetkey.kernel.secret import Fingerprint, FingerprintKey, Prefix, Secret, well_formed
from valetkey.web.exchange import Pairs, Request

Header = tuple[str, str]

BROWSER = "browser"
"""The purpose under which browser cookies are fingerprinted."""

_STATE = "browser-state"


@dataclass(frozen=True, slots=True)
class Cookies:
    """How they are called and sent: `__Host-` and Secure, but on http, which is loopback only.

    Cookies know no ports: on loopback an app on another port shares them with us, and frameworks
    call theirs `session`. So ours carry our name there.
    """

    secure: bool
    key: FingerprintKey

    @property
    def session_name(self) -> str:
        """The cookie that says who is signed in."""
        return "__Host-session" if self.secure else "valetkey-session"

    @property
    def browser_name(self) -> str:
        """The cookie that interactions and forms are bound to."""
        return "__Host-browser" if self.secure else "valetkey-browser"

    @property
    def state_name(self) -> str:
        """The cookie that tells scripts of our own frame whether the session is still the same."""
        return "__Host-browser-state" if self.secure else "valetkey-browser-state"

    @property
    def step(self) -> "Keepsake":
        """Who gave the right password, while the second factor is asked for."""
        return Keepsake("step", self.secure)

    @property
    def device(self) -> "Keepsake":
        """A device that is remembered."""
        return Keepsake("device", self.secure)

    @property
    def familiar(self) -> "Keepsake":
        """In whose accounts somebody signed in here before."""
        return Keepsake("familiar", self.secure)

    def browser_state(self, session_id: str) -> str:
        """What stands for this session in `session_state` (Session Management section 4.2)."""
        return self.key.of(_STATE, session_id)

    def session(self, request: Request) -> str:
        """The session cookie, "" for none that could be one."""
        return _read(request, self.session_name, Prefix.SESSION)

    def browser(self, request: Request) -> str:
        """The browser cookie, "" for none that could be one."""
        return _read(request, self.browser_name, Prefix.BROWSER)

    def browser_print(self, browser: str) -> Fingerprint | None:
        """What an interaction keeps of the browser it began in."""
        return self.key.of(BROWSER, browser) if browser else None

    def begin(self, cookie: Secret, session_id: str) -> Pairs:
        """Remember the session until the browser is closed or the server ends it."""
        state = self._set_state(self.browser_state(session_id))
        return self._set(self.session_name, cookie.reveal()), state

    def end(self) -> Pairs:
        """Forget the session."""
        state = self._set_state("", "; Max-Age=0")
        return self._set(self.session_name, "", "; Max-Age=0"), state

    def set_session(self, cookie: Secret) -> Header:
        """Remember the session alone: `begin` is what a sign-in needs."""
        return self._set(self.session_name, cookie.reveal())

    def set_browser(self, cookie: Secret) -> Header:
        """Recognise the browser until it is closed."""
        return self._set(self.browser_name, cookie.reveal())

    def _set(self, name: str, value: str, more: str = "") -> Header:
        # Lax, not Strict: people come to the authorization endpoint from other sites.
        secure = "; Secure" if self.secure else ""
        return "set-cookie", f"{name}={value}; Path=/{more}; HttpOnly; SameSite=Lax{secure}"

    def _set_state(self, value: str, more: str = "") -> Header:
        # None: the frame that reads it stands in the page of another site. Browsers take that
        # from https only; on loopback the other site is the same one, on another port.
        how = "SameSite=None; Secure" if self.secure else "SameSite=Lax"
        return "set-cookie", f"{self.state_name}={value}; Path=/{more}; {how}"


@dataclass(frozen=True, slots=True)
class Keepsake:
    """A cookie that only this server reads, for requests that begin here."""

    what: str
    secure: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return f"__Host-{self.what}" if self.secure else f"valetkey-{self.what}"

    def read(self, request: Request) -> str:
        """What it says, "" for nothing; anybody can have written it."""
        return request.cookie(self.name) or ""

    def keep(self, value: str, lifetime: int = 0) -> Header:
        """Keep it for so many seconds; without any, until the browser is closed."""
        return self._set(value, f"; Max-Age={lifetime}" if lifetime else "")

    def drop(self) -> Header:
        """Forget it."""
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
