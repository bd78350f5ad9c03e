"""/developer/apps/{id}/health: what should be mended about an app, and the buttons that do it."""

from dataclasses import dataclass

from valetkey.authorization.deeds.clients import Registrar
from valetkey.authorization.deeds.developer.health import Finding, Mend, findings_of, mend
from valetkey.authorization.deeds.developer.ownership import find_own
from valetkey.authorization.endpoints.account.visit import nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.insight.failures import WAYS
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.developer.insight.health import (
    FindingLine,
    HealthPage,
    MendPage,
)
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.register.connections import Connections
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class HealthEndpoint:
    """The health of one app."""

    site: Site
    registrar: Registrar

    async def get(self, request: Request) -> Response:
        """The list."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        mended = read_query(request.query).get("mended") or ""
        found = await self.site.store.scan(lambda tx: findings_of(tx, app.client, request.at))
        page = HealthPage(
            head_of(app),
            tuple(_line(each, request.at) for each in found),
            # Only what is known and not found any more was mended.
            mended=mended if mended in {*Mend} - {each.mend for each in found} else "",
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The question before one is mended; back to the list where it need not be."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app, wanted = await own_app(self.site, request, seen), _mend(request)
        found, people = await self.site.store.scan(
            lambda tx: (
                findings_of(tx, app.client, request.at),
                Connections(tx.db).count(app.client.id),
            )
        )
        finding = next((each for each in found if each.mend is wanted), None)
        head = head_of(app)
        if finding is None:
            return self.site.goes_to(head.at("health"))
        action, line = f"{head.at('health')}/{wanted}", _line(finding, request.at)
        page = MendPage(head, action, seen.csrf, line, people)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def mend(self, request: Request) -> Response:
        """Do it, if it is still to be done. Refused with `not_found` for all but the team."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        app, wanted = await own_app(self.site, request, found[0]), _mend(request)
        uid, now = found[0].signed_in.user.uid, request.at

        def work(tx: Transaction) -> bool:
            client = tx.clients.find_to_change(app.client.id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise nothing_there("app")
            done = mend(tx, self.registrar, client, wanted, now)
            if isinstance(done, tuple):
                raise _conflict()
            return done is not None

        await self.site.store.write(work, done_by=by_user(uid))
        return self.site.goes_to(f"{head_of(app).at('health')}?mended={wanted}")


def _mend(request: Request) -> Mend:
    try:
        return Mend(request.arguments["mend"])
    except ValueError:
        raise nothing_there("page") from None


def _conflict() -> Refused:
    return Refused(
        Refusal(
            ErrorCode.CONFLICT,
            "something else about this app must be put right first; look at its settings",
            "developer.mend",
        )
    )


def _line(finding: Finding, now: Instant) -> FindingLine:
    return FindingLine(
        finding.sign.value,
        finding.weight.value,
        finding.about,
        None if finding.last is None else When(finding.last, now),
        "" if finding.mend is None else finding.mend.value,
        finding.way if finding.way in WAYS else "",
    )
