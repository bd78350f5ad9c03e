"""A line of `valetkey doctor`: a finding of the shared table, or of a check that needs a shell."""

from msgspec import Struct

from valetkey.authorization.actions.inspection.check import Finding, Level


class CheckResult(Struct, frozen=True):
    """The result of one check; `next` says what to do, "" if nothing.

    `check` is the name of the condition, "" for a check that needs a shell; `console` says whether
    the console's overview shows it too. `page` is a page of the documentation, without its ending.
    """

    level: Level
    about: str
    found: str
    next: str = ""
    check: str = ""
    page: str = ""
    console: bool = False


def ok(about: str, found: str) -> CheckResult:
    """Return a finding without a problem."""
    return CheckResult(Level.OK, about, found)


def warning(about: str, found: str, next: str = "", page: str = "") -> CheckResult:
    """Return a finding of something that works but has a risk."""
    return CheckResult(Level.WARNING, about, found, next, page=page)


def error(about: str, found: str, next: str = "", page: str = "") -> CheckResult:
    """Return a finding of something that does not work or is unsafe."""
    return CheckResult(Level.ERROR, about, found, next, page=page)


def from_shared(finding: Finding, *, console: bool = True) -> CheckResult:
    """Return a finding of the shared table; `console` says whether the console shows it too."""
    row = finding.condition
    advice = " ".join(part for part in (finding.fix, finding.command) if part)
    return CheckResult(
        row.level, finding.about, finding.found, advice, row.name, row.page, console=console
    )
