"""Health of an app, its daily usage, and its connected users."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.teams import find_own
from valetkey.authorization.actions.usage import LAG, Day, usage_of
from valetkey.authorization.layout.contexts import Chart, RangeChoice, When, chosen_range, ranges
from valetkey.authorization.model.api import Api
from valetkey.authorization.portal.pages.requests import FIXING_PAGES, unknown_place
from valetkey.authorization.portal.rules.monitoring import (
    ConnectedUser,
    ConnectedUsers,
    Finding,
    Fix,
    apply_fix,
    findings_of,
    users_of_app,
)
from valetkey.authorization.protocol.resource import ScopeText, described
from valetkey.authorization.site.app_team import APP, MONITORING, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import (
    ONE_PAGE,
    Act,
    AnyPage,
    Outcome,
    Page,
    Paging,
    SeeOther,
    Show,
    not_found,
    pages_beside,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import day_of, day_text, start_of
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical


class FindingLine(Struct, frozen=True):
    """One finding: `sign` is its text, `weight` is alarm, warning or hint.

    `fix` is the action of its button, "" for none; `page` is the app's page on which it is fixed by
    hand.
    """

    sign: str
    weight: str
    about: tuple[str, ...] = ()
    last: When | None = None
    fix: str = ""
    page: str = ""


class HealthPage(Struct, frozen=True):
    """The context of health.html. `fixed` is the name of the fix that was just applied."""

    template: ClassVar[str] = "portal/pages/health.html"

    app: AppHead
    lines: tuple[FindingLine, ...]
    fixed: str = ""


class FixPage(Struct, frozen=True):
    """The context of fix.html, shown before a fix is applied. Its form posts `csrf`."""

    template: ClassVar[str] = "portal/pages/fix.html"

    app: AppHead
    action: str
    line: FindingLine
    #: How many users are connected with the app.
    people: int = 0


class Health(Struct, frozen=True):
    """Show the findings about one app, and apply fixes."""

    store: Store
    registrar: Registrar

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, path, fix = translatable("Health"), f"{APP}/health", Act(self.fix)
        return (
            Page(path, member_of_app, self.show, title=title, nav=MONITORING),
            Page(f"{path}/{{fix}}", member_of_app, self.ask_to_fix, fix, title=title),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the list of findings."""
        client, now = request.client, request.now
        fixed = request.query.get("fixed") or ""
        findings = await self.store.scan(lambda tx: findings_of(tx, client, now))
        return Show(
            HealthPage(
                request.head,
                tuple(_line(finding, now) for finding in findings),
                # Only a known fix whose finding has disappeared was applied.
                fixed=fixed if fixed in {*Fix} - {finding.fix for finding in findings} else "",
            )
        )

    async def ask_to_fix(self, request: AppRequest) -> Outcome:
        """Ask before a fix is applied; redirect to the list if it is not needed."""
        client, now, head, fix = request.client, request.now, request.head, _fix(request)
        findings, people = await self.store.scan(
            lambda tx: (findings_of(tx, client, now), tx.grants.usage_of(client.id, now).people)
        )
        finding = next((candidate for candidate in findings if candidate.fix is fix), None)
        if finding is None:
            return SeeOther(head.at("health"))
        action, line = f"{head.at('health')}/{fix}", _line(finding, now)
        return Show(FixPage(head, action, line, people))

    async def fix(self, request: AppRequest) -> Outcome:
        """Apply the fix if it is still needed. Refused (not found) for users outside the team."""
        client_id, uid, now, chosen = (
            request.client.id,
            request.user.uid,
            request.now,
            _fix(request),
        )

        def fix(tx: Transaction) -> bool:
            client = tx.clients.find_to_change(client_id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise not_found("app")
            done = apply_fix(tx, self.registrar, client, chosen, now)
            if isinstance(done, tuple):
                raise _conflict()
            return done is not None

        await self.store.write(fix, done_by=request.actor)
        return SeeOther(f"{request.head.at('health')}?fixed={chosen}")


def _fix(request: AppRequest) -> Fix:
    try:
        return Fix(request.arguments["fix"])
    except ValueError:
        raise not_found("page") from None


def _conflict() -> Refused:
    return Refused.because(
        ErrorCode.CONFLICT,
        "something else about this app must be fixed first; look at its settings",
        "developer.fix",
    )


def _line(finding: Finding, now: Instant) -> FindingLine:
    return FindingLine(
        finding.sign.value,
        finding.weight.value,
        finding.about,
        None if finding.last is None else When(finding.last, now),
        "" if finding.fix is None else finding.fix.value,
        finding.page if finding.page in FIXING_PAGES else "",
    )


DAYS = 30
"""Days shown unless the query names another number."""

ACTIVE_DAYS = 30
"""Days over which active users are counted."""

_APIS_SHOWN = 25


class UsageDay(Struct, frozen=True):
    """The numbers of one day, counted from 1970."""

    day: int
    tokens: int = 0
    people: int = 0
    errors: int = 0

    @property
    def date(self) -> str:
        """The date, such as 2026-11-21."""
        return day_text(self.day)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was counted on this day."""
        return not (self.tokens or self.people or self.errors)


class ApiTokens(Struct, frozen=True):
    """An API and the number of its tokens. `name` is "" for the default and deleted APIs."""

    identifier: str
    name: str
    amount: int


class UsagePage(Struct, frozen=True):
    """The context of usage.html. `days` are consecutive, the oldest first."""

    template: ClassVar[str] = "portal/pages/usage.html"
    scripts: ClassVar[tuple[str, ...]] = ("chart.js",)

    app: AppHead
    ranges: Sequence[RangeChoice]
    days: Sequence[UsageDay]
    #: Access tokens, users who got any, and errors, of the same days.
    tokens: Chart
    people: Chart
    refusals: Chart
    #: Different users in the last 30 days.
    active: int
    #: Access tokens by grant type, most first.
    grant_types: tuple[tuple[str, int], ...]
    #: Access tokens by API, most first.
    apis: tuple[ApiTokens, ...]
    #: Errors by code, most first.
    errors: tuple[tuple[str, int], ...]
    #: Everything before then is counted.
    counted: When


class Usage(Struct, frozen=True):
    """Show the usage of one app."""

    store: Store

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Usage")
        return (Page(f"{APP}/usage", member_of_app, self.show, title=title, nav=MONITORING),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the usage of the last days, as many as `days` names."""
        client_id, now = request.client.id, request.now
        chosen = chosen_range(request.query.get("days"), DAYS)
        today = day_of(now)

        def read(
            tx: Transaction,
        ) -> tuple[Sequence[Day], tuple[ApiTokens, ...], int, Instant]:
            usage = usage_of(tx, client_id, start_of(today - chosen + 1))
            active = tx.usage.active_since(client_id, today - ACTIVE_DAYS + 1)
            until, _ = tx.usage.cursor()
            apis = _totals(day.apis for day in usage)
            return (
                usage,
                tuple(_api(tx, *api) for api in apis[:_APIS_SHOWN]),
                active,
                until,
            )

        usage, apis, active, until = await self.store.scan(read)
        days = daily(usage, today, chosen)
        dates = [day.date for day in days]
        return Show(
            UsagePage(
                request.head,
                ranges=ranges(request.head.at("usage"), chosen),
                days=days,
                tokens=Chart(dates, [day.tokens for day in days]),
                people=Chart(dates, [day.people for day in days]),
                refusals=Chart(dates, [day.errors for day in days]),
                active=active,
                grant_types=_totals(day.tokens for day in usage),
                apis=apis,
                errors=_totals(day.errors for day in usage),
                # If nothing happened for a long time, the counts are complete up to the lag.
                counted=When(max(until, Instant(now - LAG)), now),
            )
        )


def daily(days: Sequence[Day], today: int, most: int) -> Sequence[UsageDay]:
    """Return the numbers of the last `most` days up to `today`, also of those without any."""
    counted = {
        day.day: UsageDay(day.day, sum(day.tokens.values()), day.people, sum(day.errors.values()))
        for day in days
    }
    return [counted.get(day, UsageDay(day)) for day in range(today - most + 1, today + 1)]


def _api(tx: Transaction, identifier: str, amount: int) -> ApiTokens:
    api = tx.apis.find_by_key(canonical(identifier))
    return ApiTokens(identifier, "" if api is None else api.name, amount)


def _totals(days: Iterable[Mapping[str, int]]) -> tuple[tuple[str, int], ...]:
    totals: Counter[str] = Counter()
    for counts in days:
        totals.update(counts)
    return tuple(sorted(totals.items(), key=lambda one: (-one[1], one[0])))


SHOWN = 25
"""Maximum number of users on a page."""

_NEWEST = (Instant(1 << 53), 0)
_PLACE = re.compile(r"([1-9][0-9]{0,11})\.([1-9][0-9]{0,17})", re.ASCII)


class UserLine(Struct, frozen=True):
    """One user as the app knows them; `name` and `email` if the app may read those."""

    subject: str
    since: When
    #: None if the app has a consent but no live grant.
    last_used: When | None
    name: str = ""
    email: str = ""
    #: What this user allowed beyond the most common scopes, and which of those they did not.
    more: tuple[ScopeText, ...] = ()
    missing: tuple[ScopeText, ...] = ()


class PeoplePage(Struct, frozen=True):
    """The context of people.html, newest first."""

    template: ClassVar[str] = "portal/pages/people.html"

    app: AppHead
    lines: tuple[UserLine, ...]
    total: int
    #: How many used it in the last 30 days.
    active: int
    #: The scopes that most of the listed users allowed; the lines have only what differs.
    common: tuple[ScopeText, ...] = ()
    #: The app has pairwise subject identifiers (OpenID Connect Core 8.1).
    pairwise: bool = False
    paging: Paging = ONE_PAGE


class AppUsers(Struct, frozen=True):
    """List the users of one app."""

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Connected users")
        return (Page(f"{APP}/people", member_of_app, self.show, title=title, nav=MONITORING),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show a page of the users; `before` is the encrypted position of the previous page's end.

        Encrypted, because an app with pairwise subjects must not learn or guess a uid.
        """
        client, now, head = request.client, request.now, request.head
        before = request.query.get("before")
        position = _NEWEST if before is None else self._parse(client.id, before)
        subjects, since = Subjects(self.keyring.fingerprint_key), day_of(now) - ACTIVE_DAYS + 1

        def read(tx: Transaction) -> tuple[ConnectedUsers, Sequence[Api], int]:
            crowd = users_of_app(tx, client, subjects, position, SHOWN + 1, now)
            apis = tx.apis.of_scopes(name for person in crowd.people for name in person.scope)
            return crowd, apis, tx.usage.active_since(client.id, since)

        crowd, apis, active = await self.store.scan(read)
        shown = crowd.people[:SHOWN]
        sealed = ""
        if len(crowd.people) > SHOWN:
            place_of_last = f"{shown[-1].since}.{shown[-1].uid}".encode()
            sealed = self.keyring.sealer.seal(place_of_last, _sealed_for(client.id), self.random)
        common, lines = _lines(shown, apis, now)
        return Show(
            PeoplePage(
                head,
                lines,
                crowd.total,
                active,
                common,
                pairwise=client.openid.is_pairwise,
                paging=pages_beside(head.at("people"), {}, request.query, sealed, name="before"),
            )
        )

    def _parse(self, client_id: str, before: str) -> tuple[Instant, int]:
        position = self.keyring.sealer.open(before, _sealed_for(client_id))
        match = None if position is None else _PLACE.fullmatch(position.decode())
        if match is None:
            raise unknown_place()
        return Instant(int(match[1])), int(match[2])


def _lines(
    people: Sequence[ConnectedUser], apis: Sequence[Api], now: Instant
) -> tuple[tuple[ScopeText, ...], tuple[UserLine, ...]]:
    """Return the most common scopes, and each user with what differs from them."""
    scopes = [tuple(described(person.scope, apis, {})) for person in people]
    counted = Counter(map(frozenset, scopes))
    common = max(scopes, key=lambda scope: counted[frozenset(scope)], default=())
    return common, tuple(
        UserLine(
            person.subject,
            When(person.since, now),
            None if person.last_used_at is None else When(person.last_used_at, now),
            person.name,
            person.email,
            more=tuple(text for text in scope if text not in common),
            missing=tuple(text for text in common if text not in scope),
        )
        for person, scope in zip(people, scopes, strict=True)
    )


def _sealed_for(client_id: str) -> str:
    return f"developer.people:{client_id}"
