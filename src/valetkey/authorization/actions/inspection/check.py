"""The parts of a check: the conditions that it reports, and its findings."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Condition(Struct, frozen=True):
    """A state of the installation, and what to do about it.

    `about` names what was looked at, for commands. `text` and `fix` are sentences to be translated;
    `command` is a command line. All have places such as `%(file)s` for the values of a finding.
    `page` is the page of the documentation, without its ending; `console` the page of the console
    where it is fixed, in which values are escaped.
    """

    name: str
    level: Level
    about: str
    text: str
    fix: str = ""
    command: str = ""
    page: str = ""
    console: str = ""

    def found(self, **values: object) -> "Finding":
        """Return a finding of this condition."""
        return Finding(self, {name: str(value) for name, value in values.items()})

    def as_bad(self, name: str) -> "Condition":
        """Return the same condition where it is urgent."""
        return replace(self, name=name, level=Level.ERROR)

    def as_good(self, name: str) -> "Condition":
        """Return the same sentence where there is nothing to do."""
        return replace(self, name=name, level=Level.OK, fix="", command="")


class Finding(Struct, frozen=True):
    """A condition that a check found, with its values."""

    condition: Condition
    values: Mapping[str, str]

    @property
    def level(self) -> Level:
        """The severity of the condition."""
        return self.condition.level

    @property
    def about(self) -> str:
        """The subject that was checked."""
        return self.condition.about % self.values

    @property
    def found(self) -> str:
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
        escaped = {name: quote(value, safe="") for name, value in self.values.items()}
        return self.condition.console % escaped


Findings = Iterator[Finding]


UNFINISHED = Condition(
    "unfinished",
    Level.WARNING,
    "%(part)s",
    translatable("These checks have not finished: %(part)s."),
    translatable("Reload this page, or run:"),
    "valetkey doctor",
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


class Site(Struct, frozen=True):
    """An installation as a process of the authorization server sees it, at one instant."""

    settings: Settings
    keyring: Keyring
    roles: Roles
    now: Instant


class DatabaseCheck(Struct, frozen=True):
    """A check inside a transaction on the authorization server's database."""

    name: str
    run: Callable[[Transaction, Site], Findings]
    conditions: tuple[Condition, ...]


class MachineCheck(Struct, frozen=True):
    """A check of this machine's files and limits."""

    name: str
    run: Callable[[Settings, Instant], Findings]
    conditions: tuple[Condition, ...]


class NetworkCheck(Struct, frozen=True):
    """A check that asks another server; it has a time limit of its own."""

    name: str
    run: Callable[[Settings], Awaitable[Finding]]
    conditions: tuple[Condition, ...]


Check = DatabaseCheck | MachineCheck | NetworkCheck


def moment(at: int) -> str:
    """Return `2026-03-01 12:00:00 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(at: int) -> str:
    """Return `2026-03-01`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
