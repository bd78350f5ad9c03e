"""/developer/apps/{id}/failures: what was refused, which check refused it, how to mend it."""

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from valetkey.authorization.deeds.developer.failures import (
    NEWEST,
    Place,
    app_of_failure,
    codes_of,
    failures_of,
    find_failure,
    may_be_another,
    missing_redirect_uri,
    plain_reference,
)
from valetkey.authorization.endpoints.account.visit import nothing_there, visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.server.decision import Decision
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.insight.failures.advice import advice_on
from valetkey.authorization.pages.developer.insight.failures.pages import (
    FailureLine,
    FailurePage,
    FailuresPage,
)
from valetkey.authorization.site.errors.texts import TEXTS
from valetkey.authorization.site.site import Site
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import STATUS, ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

SHOWN = 25
"""Refusals on a page."""

_PLACE = re.compile(r"([1-9][0-9]{0,11})\.(VK-[0-9A-Z-]{14})", re.ASCII)
_CODES = frozenset(ErrorCode)
WAYS = frozenset({"settings", "secrets", "start", "try"})
"""The pages of the portal that there are."""


@dataclass(frozen=True, slots=True)
class FailuresEndpoint:
    """The refusals of one app."""

    site: Site

    async def get(self, request: Request) -> Response:
        """A page of them; `before` names the last one of the page above, `code` an error."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        query = read_query(request.query)
        code, before = query.get("code") or "", query.get("before")
        if code and code not in _CODES:
            raise not_ours()
        after = NEWEST if before is None else _parse(before)
        found, codes = await self.site.store.scan(
            lambda tx: (
                failures_of(tx, app.client.id, after, SHOWN + 1, code),
                codes_of(tx, app.client.id, request.at),
            )
        )
        head = head_of(app)
        page = FailuresPage(
            head,
            tuple(_line(each, request.at) for each in found[:SHOWN]),
            codes=codes,
            code=code,
            newer=_address(head, code) if before is not None else "",
            older=_address(head, code, found[SHOWN - 1]) if len(found) > SHOWN else "",
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def one(self, request: Request) -> Response:
        """Everything about one. Refused with `not_found` for another app's."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        reference = plain_reference(request.arguments["reference"])
        decision = None
        if reference:
            decision = await self.site.store.read(
                lambda tx: find_failure(tx, app.client.id, reference)
            )
        if decision is None:
            raise nothing_there("refusal")
        code = ErrorCode(decision.code)
        advice, head = advice_on(decision.check), head_of(app)
        missing = missing_redirect_uri(decision)
        page = FailurePage(
            head,
            _line(decision, request.at),
            status=STATUS[code],
            check=decision.check,
            expected=decision.expected,
            received=decision.received,
            text=TEXTS[code],
            advice=advice,
            by_anybody=may_be_another(decision),
            until=When(decision.expires_at, request.at),
            add_redirect_uri=f"{head.at('failures')}/{reference}/add" if missing else "",
            fixed_at=advice.way if advice is not None and advice.way in WAYS else "",
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def find(self, request: Request) -> Response:
        """On to the page of a refusal, for the team of its app; `not_found` for everybody else."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        typed = request.arguments.get("reference") or read_query(request.query).get("reference")
        reference = plain_reference(typed or "")
        uid, client_id = seen.signed_in.user.uid, None
        if reference:
            client_id = await self.site.store.read(lambda tx: app_of_failure(tx, reference, uid))
        if client_id is None:
            raise nothing_there("refusal")
        return self.site.goes_to(f"{AppHead(client_id, '').at('failures')}/{reference}")


def _line(decision: Decision, now: Instant) -> FailureLine:
    return FailureLine(
        decision.reference,
        When(decision.at, now),
        decision.endpoint,
        decision.code,
        decision.description,
    )


def _address(head: AppHead, code: str, last: Decision | None = None) -> str:
    said = [("code", code)] if code else []
    if last is not None:
        said.append(("before", f"{last.at}.{last.reference}"))
    way = head.at("failures")
    return f"{way}?{urlencode(said)}" if said else way


def _parse(before: str) -> Place:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise not_ours()
    return Place(Instant(int(match[1])), match[2])


def not_ours() -> Refused:
    """For a place in a list that no page of ours names."""
    return Refused(
        Refusal(
            ErrorCode.INVALID_REQUEST,
            "this address was not one of ours; open the page of your app again",
            "developer.place",
        )
    )
