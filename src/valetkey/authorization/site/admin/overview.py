"""/admin: numbers, charts and findings."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import audit
from valetkey.authorization.actions.admin.server import DAYS, Amount, overview
from valetkey.authorization.actions.inspection.check import Finding, Level
from valetkey.authorization.actions.inspection.inspector import Inspector
from valetkey.authorization.actions.usage import DAYS_KEPT
from valetkey.authorization.layout.contexts import Chart, RangeChoice, chosen_range, ranges
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.site.admin.administrator import (
    ADMIN,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.events.lines import EventRow, names_in, rows_of
from valetkey.authorization.site.page import Figure, Outcome, Page, Show
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import day_text
from valetkey.kernel.text import translatable


class ConditionLine(Struct, frozen=True):
    """A condition to act on, in sentences to be translated and filled with `values`.

    `page` is a page of the documentation, `console` one of the console, each "" for none.
    """

    is_bad: bool
    text: str
    fix: str
    command: str
    values: Mapping[str, str]
    page: str = ""
    console: str = ""


class ConsoleOverviewPage(Struct, frozen=True):
    """Conditions to act on, numbers and charts."""

    template: ClassVar[str] = "admin/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("chart.js",)

    people: Figure
    clients: Figure
    grants: Figure
    #: Charts of the days of the range.
    sign_ins: Chart
    failed: Chart
    tokens: Chart
    errors: Chart
    ranges: Sequence[RangeChoice]
    #: Charts of the last 24 hours; `slowest` in milliseconds.
    responses: Chart
    failures: Chart
    slowest: Chart
    findings: Sequence[ConditionLine] = ()
    #: What happened last, newest first.
    latest: Sequence[EventRow] = ()


_LATEST = 5


class ConsoleOverview(Struct, frozen=True):
    """Show the first page of the console."""

    store: Store
    inspector: Inspector
    kinds: Mapping[str, type[Event]]

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Overview")
        return (
            Page(
                ADMIN,
                administrator(),
                self.show,
                title=title,
                nav=True,
                docs="how-to/operate/run-it-with-a-team.html",
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show findings, numbers and charts."""
        actor, now = request.actor, request.now
        chosen = chosen_range(request.query.get("days"), DAYS)
        # Called first: it checks the actor's permission.
        found = await self.store.scan(lambda tx: overview(tx, actor, now, chosen))
        latest = await self.store.scan(lambda tx: self._latest(tx, request))
        findings = await self.inspector.findings(now)
        dates, hours = [day_text(each.day) for each in found.days], found.hours
        times = [f"{each.hour % 24:02}:00" for each in hours]
        page = ConsoleOverviewPage(
            people=_figure(found.people),
            clients=_figure(found.clients),
            grants=_figure(found.grants),
            sign_ins=Chart(dates, [each.sign_ins for each in found.days]),
            failed=Chart(dates, [each.failed_sign_ins for each in found.days]),
            tokens=Chart(dates, [sum(each.tokens.values()) for each in found.days]),
            errors=Chart(dates, [sum(each.errors.values()) for each in found.days]),
            ranges=ranges(ADMIN, chosen, DAYS_KEPT),
            responses=Chart(times, [each.answers for each in hours]),
            failures=Chart(times, [each.failures for each in hours]),
            slowest=Chart(times, [each.most for each in hours]),
            findings=tuple(finding_line(each) for each in findings),
            latest=latest,
        )
        return Show(page)

    def _latest(self, tx: Transaction, request: AdminRequest) -> Sequence[EventRow]:
        found = audit.page(tx, request.actor, EventFilter(), END, _LATEST)
        return rows_of(found, names_in(tx, found), request.now, self.kinds)


def finding_line(finding: Finding) -> ConditionLine:
    """Return the finding as the page shows it."""
    row = finding.condition
    return ConditionLine(
        row.level is Level.ERROR,
        row.text,
        row.fix,
        finding.command,
        finding.values,
        page=f"{row.page}.html" if row.page else "",
        console=finding.console,
    )


def _figure(amount: Amount) -> Figure:
    return Figure(amount.count, amount.more)
