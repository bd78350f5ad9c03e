"""/admin: numbers, charts and findings."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin import audit
from valetkey.authorization.actions.admin.permissions import ActorPermissions
from valetkey.authorization.actions.admin.server import (
    DAYS,
    ActivityCounts,
    Amount,
    activity,
    totals,
)
from valetkey.authorization.actions.inspection.check import Finding, Level
from valetkey.authorization.actions.inspection.inspector import Inspector, PartState
from valetkey.authorization.layout.contexts import (
    Chart,
    RangeChoice,
    When,
    chosen_range,
    ranges,
)
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.site.admin.administrator import (
    ADMIN,
    AdminRequest,
    administrator,
)
from valetkey.authorization.site.admin.events.lines import EventRow, names_in, rows_of
from valetkey.authorization.site.admin.input_fields import Sentence
from valetkey.authorization.site.page import Figure, Outcome, Page, Show
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable


class ConditionLine(Struct, frozen=True):
    """A condition to act on, in sentences to be translated and filled with `values`.

    `page` is a page of the documentation, and `url` what the button with the title `action` leads
    to, each "" for none.
    """

    is_bad: bool
    text: str
    fix: str
    command: str
    values: Mapping[str, str]
    times: Mapping[str, When] = MappingProxyType({})
    page: str = ""
    url: str = ""
    action: str = ""


class PartLine(Struct, frozen=True):
    """The state of a part: its translatable name, what was found and the number of problems."""

    name: str
    sentences: Sequence[Sentence] = ()
    problems: int = 0
    is_bad: bool = False
    is_neutral: bool = False


class ConsoleOverviewPage(Struct, frozen=True):
    """Conditions to act on, numbers and charts."""

    template: ClassVar[str] = "admin/overview.html"
    scripts: ClassVar[tuple[str, ...]] = ("chart.js",)

    people: Figure
    clients: Figure
    grants: Figure
    ranges: Sequence[RangeChoice]
    #: Charts of the range; `slowest` in milliseconds.
    sign_ins: Chart
    failed: Chart
    tokens: Chart
    errors: Chart
    responses: Chart
    failures: Chart
    slowest: Chart
    findings: Sequence[ConditionLine] = ()
    states: Sequence[PartLine] = ()
    #: What happened last, newest first.
    latest: Sequence[EventRow] = ()


RANGES = (1, 7, 30)
"""The days that the page offers; one day is shown by hour."""

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
        """Show what needs attention, the state of each part, the latest events and charts."""
        actor, now = request.actor, request.now
        chosen = chosen_range(request.query.get("days"), DAYS, RANGES)
        # Called first: it checks the actor's permission.
        there, done, latest = await self.store.scan(
            lambda tx: (
                totals(tx, actor, now),
                activity(tx, actor, now, chosen),
                self._latest(tx, request),
            )
        )
        inspection = await self.inspector.inspect(now)
        page = ConsoleOverviewPage(
            people=_figure(there.people),
            clients=_figure(there.clients),
            grants=_figure(there.grants),
            ranges=ranges(ADMIN, chosen, RANGES),
            **_charts(done),
            findings=tuple(
                finding_line(finding, request.permissions, now) for finding in inspection.findings
            ),
            states=tuple(part_line(state, now) for state in inspection.states),
            latest=latest,
        )
        return Show(page)

    def _latest(self, tx: Transaction, request: AdminRequest) -> Sequence[EventRow]:
        events = audit.page(tx, request.actor, EventFilter(), END, _LATEST)
        return rows_of(events, names_in(tx, events), request.now, self.kinds)


def finding_line(finding: Finding, permissions: ActorPermissions, now: Instant) -> ConditionLine:
    """Return the finding as the page shows it to a user with these permissions."""
    row, remedy = finding.condition, finding.condition.remedy
    url, action = finding.console, translatable("Show")
    if remedy is not None and permissions.allow(remedy.permission):
        url, action = f"{url}/{remedy.slug}" if remedy.slug else url, remedy.title
    return ConditionLine(
        row.level is Level.ERROR,
        row.text,
        row.fix,
        finding.command,
        finding.values,
        _times(finding, now),
        page=f"{row.page}.html" if row.page else "",
        url=url,
        action=action if url else "",
    )


def part_line(state: PartState, now: Instant) -> PartLine:
    """Return the state as the page shows it: what was found, problems only by their number."""
    problems = state.problems
    good = [finding for finding in state.findings if finding.level is Level.OK]
    return PartLine(
        state.name,
        [
            Sentence(finding.condition.text, finding.values, _times(finding, now))
            for finding in good
        ],
        len(problems),
        any(finding.level is Level.ERROR for finding in problems),
        any(finding.condition.is_neutral for finding in good),
    )


def _times(finding: Finding, now: Instant) -> Mapping[str, When]:
    return {name: When(at, now) for name, at in finding.times.items()}


def _charts(done: ActivityCounts) -> Mapping[str, Chart]:
    numbers = {
        "sign_ins": done.sign_ins,
        "failed": done.failed_sign_ins,
        "tokens": done.tokens,
        "errors": done.errors,
        "responses": [responses.answers for responses in done.responses],
        "failures": [responses.failures for responses in done.responses],
        "slowest": [responses.most for responses in done.responses],
    }
    return {name: Chart(done.labels, values) for name, values in numbers.items()}


def _figure(amount: Amount) -> Figure:
    return Figure(amount.count, amount.more)
