"""/developer/apps/{client_id}/requests and /failures: refused requests, and samples."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, Registrar
from valetkey.authorization.actions.developer.requests import (
    NEWEST,
    AppRequests,
    Cursor,
    add_redirect_uri,
    app_of_failure,
    codes_of,
    find_failure,
    may_be_another,
    missing_redirect_uri,
    plain_reference,
    requests_of,
)
from valetkey.authorization.actions.developer.team import find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import Client
from valetkey.authorization.site.developer.app import (
    APP,
    MONITORING,
    AppHead,
    AppRequest,
    member_of_app,
)
from valetkey.authorization.site.developer.monitoring.advice import Advice, advice_on
from valetkey.authorization.site.errors.refuse import TEXTS, ErrorText
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.site.paging import ONE_PAGE, Paging, pages_beside
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import StoredSample
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.url import origin
from valetkey.kernel.words import translatable

REQUESTS = f"{APP}/requests"
SHOWN = 25
"""Maximum number of requests on a page."""

_PLACE = re.compile(r"([1-9][0-9]{0,11})\.(VK-[0-9A-Z-]{14}|[0-9]{16})", re.ASCII)
_CODES = frozenset(ErrorCode)


class Shown(StrEnum):
    """A filter of the requests that the page lists."""

    ALL = ""
    FAILED = "failed"
    SUCCESSFUL = "successful"


class RequestLine(Struct, frozen=True):
    """One request: refused if it has a `reference`, else successful.

    `description` is the fixed text of its error. The status of a refused one is not recorded.
    """

    when: When
    endpoint: str
    reference: str = ""
    code: str = ""
    description: str = ""
    method: str = ""
    status: int = 0
    milliseconds: int = 0
    grant_type: str = ""
    scope: str = ""
    request_id: str = ""


class RequestsPage(Struct, frozen=True):
    """The context of requests.html, newest first. `code` filters by an error code, "" for all."""

    template: ClassVar[str] = "developer/monitoring/requests.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    lines: tuple[RequestLine, ...]
    #: The error codes that can be chosen.
    codes: Sequence[str]
    #: `failed`, `successful`, or "" for all.
    shown: str = ""
    code: str = ""
    #: The seconds for which one successful request of a kind is recorded, 0 for none.
    sampled_every: int = 60
    paging: Paging = ONE_PAGE


class Requests(Struct, frozen=True):
    """List the refused and successful requests of an app."""

    store: Store
    sampled_every: int

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Requests")
        return (
            Page(
                REQUESTS,
                member_of_app,
                self.show,
                title=title,
                nav=MONITORING,
                docs="how-to/apps/find-out-why-a-request-failed.html",
            ),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show a page of the requests; `before` is the last entry of the previous page.

        `show` filters by outcome, `code` by error code.
        """
        client_id, now, head = request.client.id, request.now, request.head
        code, before = request.query.get("code") or "", request.query.get("before")
        named = Shown.FAILED if code else request.query.get("show") or ""
        if named not in tuple(Shown) or (code and code not in _CODES):
            raise unknown_place()
        shown = Shown(named)
        after = NEWEST if before is None else _parse(before)
        wanted = AppRequests(
            refused=shown is not Shown.SUCCESSFUL, successful=shown is not Shown.FAILED, code=code
        )
        found, codes = await self.store.scan(
            lambda tx: (
                requests_of(tx, client_id, after, SHOWN + 1, wanted),
                codes_of(tx, client_id, now),
            )
        )
        last = Cursor.of(found[SHOWN - 1]) if len(found) > SHOWN else None
        return Show(
            RequestsPage(
                head,
                tuple(_line(each, now) for each in found[:SHOWN]),
                codes=codes,
                shown=shown.value,
                code=code,
                sampled_every=self.sampled_every,
                paging=pages_beside(
                    head.at("requests"),
                    {"code": code} if code else {"show": shown.value},
                    request.query,
                    f"{last.at}.{last.reference}" if last else "",
                    name="before",
                ),
            )
        )


def refused_line(decision: Decision, now: Instant) -> RequestLine:
    """Return a refused request as pages show it."""
    return RequestLine(
        When(decision.at, now),
        decision.endpoint,
        decision.reference,
        decision.code,
        decision.description,
    )


def _line(found: Decision | StoredSample, now: Instant) -> RequestLine:
    if isinstance(found, Decision):
        return refused_line(found, now)
    return RequestLine(
        When(found.at, now),
        found.endpoint,
        method=found.method,
        status=found.status,
        milliseconds=found.milliseconds,
        grant_type=found.grant_type,
        scope=found.scope,
        request_id=found.request_id,
    )


def _parse(before: str) -> Cursor:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise unknown_place()
    return Cursor(Instant(int(match[1])), match[2])


def unknown_place() -> Refused:
    """Return the refusal of a list position that no page links to."""
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        "this address is invalid; open the page of your app again",
        "developer.place",
    )


FAILURES = f"{APP}/failures"
FIXING_PAGES = frozenset({"settings", "secrets", "start", "try"})
"""The sections of an app that an advice may link to."""


class FailurePage(Struct, frozen=True):
    """The context of failure.html. `expected` and `received` may contain text from anyone."""

    template: ClassVar[str] = "developer/monitoring/failure.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js", "times.js")

    app: AppHead
    line: RequestLine
    status: int
    check: str
    expected: str
    received: str
    text: ErrorText
    advice: Advice | None
    #: The request was not authenticated: anyone could have sent it in the name of the app.
    by_anybody: bool
    #: When the record is deleted.
    until: When
    #: The page of the app on which to fix it, "" for none.
    fixed_at: str = ""
    #: The page that adds the missing redirect URI, "" for other failures.
    add_redirect_uri: str = ""


class AddRedirectUriPage(Struct, frozen=True):
    """The context of add_redirect_uri.html. Its form posts `csrf`.

    With `strange`, the app has no redirect URI on that server.
    """

    template: ClassVar[str] = "developer/monitoring/add_redirect_uri.html"

    app: AppHead
    action: str
    reference: str
    redirect_uri: str
    place: str
    registered: tuple[str, ...]
    strange: bool


class Failures(Struct, frozen=True):
    """Explain a failed request of an app; register a redirect URI named by it."""

    store: Store
    registrar: Registrar

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature; two find the app by a reference alone."""
        title, found = translatable("Failed requests"), translatable("Failed request")
        add = translatable("Add this redirect URI?")
        path, anywhere = f"{FAILURES}/{{reference}}", f"{DEVELOPER}/failures"
        return (
            Page(path, member_of_app, self.show_one, title=found),
            Page(f"{path}/add", member_of_app, self.ask_to_add, Act(self.add), title=add),
            Page(anywhere, signed_in, self.find, title=title),
            Page(f"{anywhere}/{{reference}}", signed_in, self.find, title=title),
        )

    async def show_one(self, request: AppRequest) -> Outcome:
        """Show one failed request. Refused (not found) for one of another app."""
        decision = await self._find(request)
        if decision is None:
            raise not_found("refusal")
        code, head = ErrorCode(decision.code), request.head
        advice = advice_on(decision.check)
        missing = missing_redirect_uri(decision)
        place = f"{head.at('failures')}/{decision.reference}"
        return Show(
            FailurePage(
                head,
                refused_line(decision, request.now),
                status=code.status,
                check=decision.check,
                expected=decision.expected,
                received=decision.received,
                text=TEXTS[code],
                advice=advice,
                by_anybody=may_be_another(decision),
                until=When(decision.expires_at, request.now),
                add_redirect_uri=f"{place}/add" if missing else "",
                fixed_at=advice.page if advice is not None and advice.page in FIXING_PAGES else "",
            )
        )

    async def find(self, request: SignedInRequest) -> Outcome:
        """Redirect to a failed request, for the team of its app. Refused (not found) for others."""
        typed = request.arguments.get("reference") or request.query.get("reference")
        reference, uid = plain_reference(typed or ""), request.user.uid
        client_id = None
        if reference:
            client_id = await self.store.read(lambda tx: app_of_failure(tx, reference, uid))
        if client_id is None:
            raise not_found("refusal")
        return SeeOther(f"{AppHead(client_id, '').at('failures')}/{reference}")

    async def ask_to_add(self, request: AppRequest) -> Outcome:
        """Ask before the redirect URI is added. Refused (not found) if none is missing."""
        reference, uri = await self._missing(request)
        head, place, registered = request.head, origin(uri), request.client.redirect_uris
        return Show(
            AddRedirectUriPage(
                head,
                f"{head.at('failures')}/{reference}/add",
                reference,
                uri,
                place.partition("://")[2] or place,
                registered,
                strange=place not in {origin(each) for each in registered},
            )
        )

    async def add(self, request: AppRequest) -> Outcome:
        """Add the redirect URI. Refused (conflict) for one that no app may register."""
        _, uri = await self._missing(request)
        client_id, uid, now = request.client.id, request.user.uid, request.now

        def add(tx: Transaction) -> Client | Faults:
            client = tx.clients.find_to_change(client_id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise not_found("app")
            return add_redirect_uri(tx, self.registrar, client, uri, now)

        done = await self.store.write(add, done_by=request.actor)
        if isinstance(done, tuple):
            raise Refused.because(
                ErrorCode.CONFLICT,
                "this address cannot be a redirect URI; the settings of the app say why",
                "developer.redirect_uri",
            )
        return SeeOther(f"{request.head.at('settings')}?saved=1")

    async def _find(self, request: AppRequest) -> Decision | None:
        reference, client_id = plain_reference(request.arguments["reference"]), request.client.id
        if not reference:
            return None
        return await self.store.read(lambda tx: find_failure(tx, client_id, reference))

    async def _missing(self, request: AppRequest) -> tuple[str, str]:
        decision = await self._find(request)
        uri = "" if decision is None else missing_redirect_uri(decision)
        if decision is None or not uri:
            raise not_found("refusal")
        return decision.reference, uri
