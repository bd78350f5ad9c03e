"""Parts of contexts that several features share: times, apps, users and sessions."""

from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable


class When(Struct, frozen=True):
    """A time as seen from `now`."""

    at: Instant
    now: Instant

    @property
    def elapsed(self) -> int:
        """Seconds since then, at least 0."""
        return max(0, self.now - self.at)

    @property
    def machine(self) -> str:
        """The time in the format of a `time` element: 2026-11-21T16:40:33Z."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%dT%H:%M:%SZ}"

    @property
    def exact(self) -> str:
        """The time to the second in UTC: 2026-11-21 16:40:33 UTC."""
        return self.exact_in("")

    @property
    def day(self) -> str:
        """The date in UTC: 2026-11-21."""
        return self.day_in("")

    def exact_in(self, zone: str) -> str:
        """Return date and time in `zone` to the second: 2026-11-21 17:40:33 CET; UTC for none."""
        return f"{datetime.fromtimestamp(self.at, _zone(zone)):%Y-%m-%d %H:%M:%S %Z}"

    def day_in(self, zone: str) -> str:
        """Return the date in `zone`."""
        return f"{datetime.fromtimestamp(self.at, _zone(zone)):%Y-%m-%d}"


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # The machine's list of zones may have become shorter since it was said.
        return UTC


class AskingApp(Struct, frozen=True):
    """An app as shown to a user whom it asks for access.

    `domain` is the host the response is sent to, because a name can be copied and a host cannot.
    Links that are not `https` are left out of the page.
    """

    name: str
    domain: str
    verified: bool = False
    logo_url: str = ""
    policy_url: str = ""
    terms_url: str = ""
    #: Registered by itself, and not verified by an administrator.
    self_registered: bool = False
    #: The host of the document that describes it; "" if it is known otherwise.
    document_host: str = ""


class CurrentUser(Struct, frozen=True):
    """The user whose session this is; an empty `name` or `email` is left out."""

    username: str
    name: str = ""
    email: str = ""

    @property
    def shown_name(self) -> str:
        """The name to show."""
        return self.name or self.username

    @property
    def shown_account(self) -> str:
        """The username to show beside the name; "" if they are equal."""
        return self.email or (self.username if self.name else "")


class ProofMethod(StrEnum):
    """The authentication methods of a sign-in."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    TWO_STEPS = "two_steps"  # a password and a second factor
    ELSEWHERE = "elsewhere"  # an upstream provider


class SessionLine(Struct, frozen=True):
    """One session; `browser` and `system` are "" if the User-Agent does not reveal them.

    The IP addresses of sign-in and latest use are "" if they are unknown or not recorded.
    """

    id: str
    browser: str
    system: str
    since: When
    last_seen: When
    #: Whether it is the session of the browser that shows the page.
    here: bool = False
    proof: ProofMethod = ProofMethod.PASSWORD
    signed_in_from: str = ""
    last_seen_from: str = ""


class AccountNotice(Struct, frozen=True):
    """A notice on the overview of an account: a sentence, and a link to what to do about it."""

    text: str
    link: str = ""
    """The text of the link, "" for none. Like `text`, translated if it is `translatable`."""
    url: str = ""


class FormPostPage(Struct, frozen=True):
    """Post `fields` to the app: automatically with scripts, by a button without.

    Send it with a policy that names `script_nonce` and allows forms to `action` only.
    """

    template: ClassVar[str] = "layout/form_post.html"
    title: ClassVar[str] = translatable("Back to the app")

    action: str
    fields: tuple[tuple[str, str], ...]
    app_name: str
    script_nonce: str
