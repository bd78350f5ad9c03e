"""The parts of a check: the conditions that it reports, and its findings."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class RemedyButton(Struct, frozen=True):
    """A button that does something about a condition, for roles with the permission.

    `title` is translatable. `slug` is the confirmation page below the condition's page of the
    console, "" for that page itself.
    """

    title: str
    permission: Permission = Permission.READ
    slug: str = ""


class At(Struct, frozen=True):
    """A time as a value of a finding: in UTC for commands, relative to now for pages."""

    at: Instant

    def __str__(self) -> str:
        """Return the time in UTC."""
        return moment(self.at)


class Condition(Struct, frozen=True):
    """A state of the installation, and what to do about it.

    `about` names what was looked at, for commands. `text` and `fix` are sentences to be translated;
    `command` is a command line. All have places such as `%(file)s` for the values of a finding.
    `page` is the page of the documentation, without its ending; `console` the page of the console
    where it is fixed, in which values are escaped, and `remedy` the button there or to there.
    """

    name: str
    level: Level
    about: str
    text: str
    fix: str = ""
    command: str = ""
    page: str = ""
    console: str = ""
    remedy: RemedyButton | None = None
    is_neutral: bool = False
    """Whether it is neither good nor a problem: pages show no badge."""

    def finding(self, **values: object) -> "Finding":
        """Return this condition as found; `values` fill the placeholders of its texts."""
        times = {name: value.at for name, value in values.items() if isinstance(value, At)}
        return Finding(self, {name: str(value) for name, value in values.items()}, times)

    def as_bad(self, name: str) -> "Condition":
        """Return the same condition where it is urgent."""
        return replace(self, name=name, level=Level.ERROR)

    def as_good(self, name: str) -> "Condition":
        """Return the same sentence where there is nothing to do."""
        return replace(self, name=name, level=Level.OK, fix="", command="", remedy=None)


class Finding(Struct, frozen=True):
    """A condition that a check found, with its values."""

    condition: Condition
    values: Mapping[str, str]
    times: Mapping[str, Instant] = MappingProxyType({})
    """The values that pages show as the time since then."""

    @property
    def level(self) -> Level:
        """The severity of the condition."""
        return self.condition.level

    @property
    def about(self) -> str:
        """The subject that was checked."""
        return self.condition.about % self.values

    @property
    def sentence(self) -> str:
        """A sentence that says what was found."""
        return self.condition.text % self.values

    @property
    def fix(self) -> str:
        """The recommended action, without the command; "" for none."""
        return self.condition.fix % self.values

    @property
    def command(self) -> str:
        """The command that fixes the problem, "" for none."""
        return self.condition.command % self.values

    @property
    def console(self) -> str:
        """The page of the console where the problem is fixed, "" for none."""
        escaped = {name: path_segment(value) for name, value in self.values.items()}
        return self.condition.console % escaped


Findings = Iterator[Finding]


UNFINISHED = Condition(
    "unfinished",
    Level.WARNING,
    "%(part)s",
    translatable("These checks have not finished: %(part)s."),
    translatable("Check again in a minute."),
    console=ADDRESSES["admin"],
    remedy=RemedyButton(translatable("Check again")),
)
FAILED = Condition(
    "failed",
    Level.ERROR,
    "%(part)s",
    translatable("These checks failed: %(part)s."),
    translatable("For the reason, see inspection.failed in the log, or run:"),
    "valetkey doctor",
)


def is_incomplete(finding: Finding) -> bool:
    """Return whether this says that checks were not made: what they would find is unknown."""
    return finding.condition in {UNFINISHED, FAILED}


class Installation(Struct, frozen=True):
    """An installation as a process of the authorization server sees it, at one instant."""

    settings: Settings
    keyring: Keyring
    roles: Roles
    now: Instant


DATABASE = translatable("Database")
MACHINE = translatable("This machine")
NODES = translatable("Nodes")
BACKUPS = translatable("Backups")
KEYS = translatable("Signing keys")
MAIL = translatable("Email")
CERTIFICATES = translatable("Certificates")
SIGN_OUT_NOTICES = translatable("Sign-out notices")
AUDIT_LOG = translatable("Audit log")
"""Names of the parts whose state the console shows; features have others."""


class DatabaseCheck(Struct, frozen=True):
    """A check inside a transaction on the authorization server's database.

    `part` is the translatable name of what it checks, of which the console shows the state; "" for
    what is no part of an installation. The same holds for the other kinds of checks.
    """

    name: str
    run: Callable[[Transaction, Installation], Findings]
    conditions: tuple[Condition, ...]
    part: str = ""


class MachineCheck(Struct, frozen=True):
    """A check of this machine's files and limits."""

    name: str
    run: Callable[[Settings, Instant], Findings]
    conditions: tuple[Condition, ...]
    part: str = ""


class NetworkCheck(Struct, frozen=True):
    """A check that asks another server; it has a time limit of its own."""

    name: str
    run: Callable[[Settings], Awaitable[Finding]]
    conditions: tuple[Condition, ...]
    part: str = ""


Check = DatabaseCheck | MachineCheck | NetworkCheck


def moment(at: int) -> str:
    """Return `2026-03-01 12:00:00 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(at: int) -> str:
    """Return `2026-03-01`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
