"""/developer/apps/{client_id}/failures/{reference}: the check that failed, and how to fix it."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, Registrar
from valetkey.authorization.actions.developer.requests import (
    add_redirect_uri,
    app_of_failure,
    find_failure,
    may_be_another,
    missing_redirect_uri,
    plain_reference,
)
from valetkey.authorization.actions.developer.team import find_own
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.developer.monitoring.advice import Advice, advice_on
from valetkey.authorization.site.developer.monitoring.requests import (
    RequestLine,
    refused_line,
)
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
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.decisions import Decision
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import origin
from valetkey.kernel.words import translatable

FAILURES = f"{APP}/failures"
FIXING_PAGES = frozenset({"settings", "secrets", "start", "try"})
"""The pages of an app that an advice may lead to."""


class FailurePage(Struct, frozen=True):
    """The context of failure.html. `expected` and `received` may hold what anyone sent."""

    template: ClassVar[str] = "developer/monitoring/failure.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

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
    #: Where the missing redirect URI can be added, "" for other failures.
    add_redirect_uri: str = ""


class AddRedirectUriPage(Struct, frozen=True):
    """The context of add_redirect_uri.html. Its form posts `csrf`.

    With `strange`, the app has no redirect URI on that server.
    """

    template: ClassVar[str] = "developer/monitoring/add_redirect_uri.html"

    app: AppHead
    action: str
    csrf: str
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
        """The pages of this feature; two find the app by a reference alone."""
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
        """Ask before the redirect URI is added. Refused (not found) where none is missing."""
        reference, uri = await self._missing(request)
        head, place, registered = request.head, origin(uri), request.client.redirect_uris
        return Show(
            AddRedirectUriPage(
                head,
                f"{head.at('failures')}/{reference}/add",
                request.csrf,
                reference,
                uri,
                place.partition("://")[2] or place,
                registered,
                strange=place not in {origin(each) for each in registered},
            )
        )

    async def add(self, request: AppRequest) -> Outcome:
        """Add it. Refused (conflict) for an address that no app may register."""
        _, uri = await self._missing(request)
        client_id, uid, now = request.client.id, request.user.uid, request.now

        def add(tx: Transaction) -> Client | Faults:
            client = tx.clients.find_to_change(client_id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise not_found("app")
            return add_redirect_uri(tx, self.registrar, client, uri, now)

        done = await self.store.write(add, done_by=request.actor)
        if isinstance(done, tuple):
            raise Refused(
                Refusal(
                    ErrorCode.CONFLICT,
                    "this address cannot be a redirect URI; the settings of the app say why",
                    "developer.redirect_uri",
                )
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
