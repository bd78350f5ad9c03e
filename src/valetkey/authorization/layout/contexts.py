"""Parts of contexts that several features share: times, apps, users, charts and QR codes."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import import_lazily
from valetkey.kernel.text import translatable


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


HEIGHT = 100
"""Height of the drawing; each bar is 10 wide, including its gap."""

RANGES = (7, 30, 90, 365)
"""The numbers of days that a page offers, all within the days that counts are kept."""

_STEPS = (1, 2, 4, 6, 10)


class Chart(Struct, frozen=True):
    """A number for each day (2026-11-21) or hour (14:00) of `labels`, without gaps."""

    labels: Sequence[str]
    values: Sequence[int]

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return sum(self.values)

    @property
    def most(self) -> int:
        """The largest number, 0 for none."""
        return max(self.values, default=0)

    @property
    def top(self) -> int:
        """The end of the axis: the next round number, one of 1, 2, 4, 6 and 10 times ten to n."""
        power = 1
        while self.most > power * 10:
            power *= 10
        return next(step * power for step in _STEPS if step * power >= self.most)

    @property
    def ticks(self) -> tuple[int, ...]:
        """The numbers on the axis, largest first, all whole."""
        return (self.top, self.top // 2, 0) if self.top > 1 else (1, 0)

    @property
    def dates(self) -> tuple[str, ...]:
        """The labels on the time axis: the first, the middle one and the last."""
        if len(self.labels) < len(self.ticks):
            return tuple(self.labels)
        return self.labels[0], self.labels[(len(self.labels) - 1) // 2], self.labels[-1]

    @property
    def path(self) -> str:
        """The SVG path of the bars; a number above 0 has at least 1 of the height."""
        top = self.top
        return "".join(
            f"M{index * 10 + 1} {HEIGHT}v-{max(1, round(value * HEIGHT / top))}h8V{HEIGHT}z"
            for index, value in enumerate(self.values)
            if value
        )


class RangeChoice(Struct, frozen=True):
    """A range of days that a page offers, and its URL."""

    days: int
    url: str
    is_current: bool


def chosen_range(text: str | None, usual: int, offered: Sequence[int] = RANGES) -> int:
    """Return the range that the parameter `days` names, or `usual` if that is not offered."""
    return next((days for days in offered if str(days) == text), usual)


def ranges(path: str, chosen: int, offered: Sequence[int] = RANGES) -> Sequence[RangeChoice]:
    """Return the ranges as links to `path`."""
    return [RangeChoice(days, f"{path}?days={days}", days == chosen) for days in offered]


if TYPE_CHECKING:
    import segno
else:
    segno = import_lazily("segno")


def qr_code(text: str) -> tuple[str, int]:
    """Return the dark squares of a QR code as the `d` of an SVG path, and the code's width."""
    code = segno.make(text, error="m", micro=False)
    runs: list[str] = []
    for y, row in enumerate(code.matrix_iter(border=4)):
        start = None
        for x, dark in enumerate((*row, 0)):
            if dark and start is None:
                start = x
            elif not dark and start is not None:
                runs.append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = None
    width, _ = code.symbol_size(border=4)
    return "".join(runs), int(width)
