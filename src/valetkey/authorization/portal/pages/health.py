"""/developer/apps/{client_id}/health: findings about an app, and their fixes."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.developer.health import Finding, Fix, apply_fix, findings_of
from valetkey.authorization.actions.developer.team import find_own
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.developer.app import (
    APP,
    MONITORING,
    AppHead,
    AppRequest,
    member_of_app,
)
from valetkey.authorization.site.developer.monitoring.requests import FIXING_PAGES
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    not_found,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.words import translatable


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

    template: ClassVar[str] = "developer/monitoring/health.html"

    app: AppHead
    lines: tuple[FindingLine, ...]
    fixed: str = ""


class FixPage(Struct, frozen=True):
    """The context of fix.html, shown before a fix is applied. Its form posts `csrf`."""

    template: ClassVar[str] = "developer/monitoring/fix.html"

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
        found = await self.store.scan(lambda tx: findings_of(tx, client, now))
        return Show(
            HealthPage(
                request.head,
                tuple(_line(each, now) for each in found),
                # Only a known fix whose finding has disappeared was applied.
                fixed=fixed if fixed in {*Fix} - {each.fix for each in found} else "",
            )
        )

    async def ask_to_fix(self, request: AppRequest) -> Outcome:
        """Ask before a fix is applied; redirect to the list if it is not needed."""
        client, now, head, wanted = request.client, request.now, request.head, _fix(request)
        found, people = await self.store.scan(
            lambda tx: (findings_of(tx, client, now), tx.grants.usage_of(client.id, now).people)
        )
        finding = next((each for each in found if each.fix is wanted), None)
        if finding is None:
            return SeeOther(head.at("health"))
        action, line = f"{head.at('health')}/{wanted}", _line(finding, now)
        return Show(FixPage(head, action, line, people))

    async def fix(self, request: AppRequest) -> Outcome:
        """Apply the fix if it is still needed. Refused (not found) for users outside the team."""
        client_id, uid, now, wanted = (
            request.client.id,
            request.user.uid,
            request.now,
            _fix(request),
        )

        def fix(tx: Transaction) -> bool:
            client = tx.clients.find_to_change(client_id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise not_found("app")
            done = apply_fix(tx, self.registrar, client, wanted, now)
            if isinstance(done, tuple):
                raise _conflict()
            return done is not None

        await self.store.write(fix, done_by=request.actor)
        return SeeOther(f"{request.head.at('health')}?fixed={wanted}")


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
        finding.way if finding.way in FIXING_PAGES else "",
    )
