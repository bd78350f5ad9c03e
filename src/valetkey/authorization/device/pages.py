"""/device: users enter the code of a device and allow it (RFC 8628 section 3.3)."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar
from urllib.parse import unquote

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import remember_consent
from valetkey.authorization.actions.registrations import note_sign_in
from valetkey.authorization.authentication.session import LiveSession, find_still_present
from valetkey.authorization.device.model import (
    USER_CODE,
    DeviceCode,
    DeviceCodeAllowed,
    read_user_code,
    shown_user_code,
)
from valetkey.authorization.device.rules import client_limit
from valetkey.authorization.device.settings import DeviceSettings
from valetkey.authorization.device.storage import DeviceCodes
from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.authorization.feature import EndpointParts
from valetkey.authorization.layout.addresses import APPS, DEVICE
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser, When, qr_code
from valetkey.authorization.model.api import Api, required_groups
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.event.grants import ConsentDenied
from valetkey.authorization.model.grant import CodePayload, Consent
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.resource import described, grantable, plain
from valetkey.authorization.site.consent import (
    NO_DECISION,
    ChangeShown,
    ScopeLine,
    changes_since,
    required_of,
    scope_lines,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    signed_in,
)
from valetkey.authorization.site.presentation import shown_app, shown_user
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.text import translatable
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Request, Response
from valetkey.web.router import Route

ONE = f"{DEVICE}/{{user_code}}"

_BAD_REQUEST = 400
_TITLE = translatable("Connect a device")


class EnterCodePage(Struct, frozen=True):
    """The context of enter.html: the form for the code. Posts `csrf` and `user_code`.

    `code` is what was entered and is not valid, "" before.
    """

    template: ClassVar[str] = "device/enter.html"

    action: str
    #: Seconds that a code lasts.
    lasts: int
    code: str = ""


class ConfirmDevicePage(Struct, frozen=True):
    """Ask whether the app on the device may have access. Context of confirm.html.

    Posts `csrf`, `decision=allow` or `decision=deny`, `shown=yes` if the user compared the code,
    `scope` once for each checked box, and `required` for each required scope shown.
    """

    template: ClassVar[str] = "device/confirm.html"

    action: str
    code: str
    app: AskingApp
    person: CurrentUser
    scopes: tuple[ScopeLine, ...]
    changes: tuple[ChangeShown, ...]
    #: When and from which IP address the device asked, "" if that is unknown or not recorded.
    requested: When
    requested_from: str
    #: Seconds the access can last at most.
    lasts: int
    account_url: str
    #: The user pressed Allow with every box cleared.
    nothing_chosen: bool = False
    #: The user pressed Allow without comparing the code.
    not_compared: bool = False


class DeviceDecidedPage(Struct, frozen=True):
    """The decision was recorded: the device gets access, or none.

    Context of decided.html.
    """

    template: ClassVar[str] = "device/decided.html"

    app_name: str
    allowed: bool


class UserCodeQr(Struct, frozen=True):
    """Draws QR codes, for devices that cannot."""

    issuer: str

    async def __call__(self, request: Request) -> Response:
        """Return the QR code of a user code as SVG, whether or not the code is valid."""
        code = read_user_code(unquote(request.arguments["user_code"]))
        if code is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this code does not exist", "device.picture")
        squares, size = qr_code(f"{self.issuer}{DEVICE}/{shown_user_code(code)}")
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}">'
            f'<path fill="#fff" d="M0 0h{size}v{size}H0z"/><path d="{squares}"/></svg>'
        )
        headers = (
            ("content-type", "image/svg+xml"),
            # Devices with a browser embed it in their pages.
            ("cross-origin-resource-policy", "cross-origin"),
        )
        return Response(200, svg.encode(), headers)


def qr_code_route(parts: EndpointParts) -> Route:
    """Return the route of the QR codes of user codes."""
    endpoint = UserCodeQr(parts.server.issuer)
    return Route(f"{ONE}/qr.svg", {"GET": endpoint}, parts.refuse_with_page)


class _Entered(Struct, frozen=True):
    """A valid code that a user entered, its client, and the scopes that can be allowed."""

    code: DeviceCode
    client: Client
    apis: Sequence[Api]
    scope: Scope


class DevicePages(Struct, frozen=True):
    """The pages of device authorization; entered codes count as guesses until proven valid."""

    server: Server
    settings: DeviceSettings

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages that enter and confirm the code."""
        confirm = Act(self.decide, multiple=("scope", "required"))
        return (
            Page(DEVICE, signed_in, self.enter, Act(self.entered), title=_TITLE),
            Page(ONE, signed_in, self.confirm, confirm, title=_TITLE),
        )

    async def enter(self, request: SignedInRequest) -> Outcome:
        """Show the form for the code of a device."""
        return self._enter(request)

    async def entered(self, request: SignedInRequest) -> Outcome:
        """Redirect to the confirmation page of the entered code."""
        typed = (request.form.get("user_code") or "").strip()
        code = read_user_code(typed)
        if code is None:
            return self._enter(request, typed or "-")
        return SeeOther(f"{DEVICE}/{shown_user_code(code)}", request.headers)

    async def confirm(self, request: SignedInRequest) -> Outcome:
        """Show the request that waits for this code."""
        entered = await self._find(request)
        return entered if isinstance(entered, Show) else await self._ask(request, entered)

    async def decide(self, request: SignedInRequest) -> Outcome:
        """Allow or deny the request that waits for this code."""
        entered = await self._find(request)
        if isinstance(entered, Show):
            return entered
        form = request.form
        name = entered.client.name or entered.client.id
        decision, deny = form.get("decision"), partial(self._deny, entered, request)
        if decision == "deny":
            await self.server.store.write(deny, done_by=request.actor)
            return Show(DeviceDecidedPage(name, allowed=False))
        if decision != "allow":
            raise Refused(NO_DECISION)
        if form.get("shown") != "yes":
            return await self._ask(request, entered, not_compared=True)
        chosen = Scope((*form.all("scope"), *form.all("required")))
        if not required_of(entered.client) & entered.scope <= chosen:
            # Declared as required since the page was shown: the user must see it first.
            return SeeOther(request.request.path)
        scope = entered.scope & chosen
        if not scope:
            return await self._ask(request, entered, nothing_chosen=True)
        consent_id = fresh_id("co", self.server.random)
        await self.server.store.write(
            partial(self._allow, entered, request, scope, consent_id), done_by=request.actor
        )
        return Show(DeviceDecidedPage(name, allowed=True))

    def _enter(self, request: SignedInRequest, wrong: str = "") -> Show:
        page = EnterCodePage(DEVICE, self.settings.code_lifetime, wrong)
        return Show(page, _BAD_REQUEST if wrong else 200)

    async def _ask(
        self,
        request: SignedInRequest,
        entered: _Entered,
        *,
        nothing_chosen: bool = False,
        not_compared: bool = False,
    ) -> Show:
        client, uid = entered.client, request.user.uid
        before = await self.server.store.read(lambda tx: tx.consents.find(uid, client.id))
        redirect_uri = client.redirect_uris[0] if client.redirect_uris else ""
        page = ConfirmDevicePage(
            action=request.request.path,
            code=shown_user_code(read_user_code(unquote(request.arguments["user_code"])) or ""),
            app=shown_app(client, redirect_uri, signed_in=True),
            person=shown_user(request.signed_in),
            scopes=scope_lines(
                described(entered.scope, entered.apis, self.server.scopes),
                required_of(client),
                chosen=not nothing_chosen,
            ),
            changes=changes_since(before, client),
            requested=When(entered.code.created_at, request.now),
            requested_from=entered.code.address,
            lasts=self.server.policy.grant_lifetime(client, entered.apis),
            account_url=APPS,
            nothing_chosen=nothing_chosen,
            not_compared=not_compared,
        )
        return Show(page, _BAD_REQUEST if nothing_chosen or not_compared else 200)

    async def _find(self, request: SignedInRequest) -> _Entered | Show:
        """Return the request of the code in the URL; the entry form if the code is invalid.

        Refused with `slow_down` after too many invalid codes.
        """
        code = read_user_code(unquote(request.arguments["user_code"]))
        if code is None:
            return self._enter(request, request.arguments["user_code"])
        result = await self.server.store.write(
            partial(self._look_up, code, request), done_by=USUAL_ACTOR
        )
        if isinstance(result, int):
            raise Refused.because(
                ErrorCode.SLOW_DOWN,
                "too many invalid codes were entered; try again later",
                "device.throttled",
                retry_after=result,
            )
        if result is None:
            self.server.decisions.enqueue(_NOT_VALID, endpoint=DEVICE, at=request.now)
            return self._enter(request, shown_user_code(code))
        return result

    def _look_up(
        self, code: str, request: SignedInRequest, tx: Transaction
    ) -> _Entered | int | None:
        """Return what waits for a code, None if it is not valid, or the seconds to wait."""
        key, now, settings = self.server.keyring.fingerprint_key, request.now, self.settings
        network = key.fingerprint("throttle", network_of(request.request.address))
        taken: list[str] = []
        for bucket, most in (
            (f"user_codes_by:{request.user.uid}", settings.wrong_codes),
            (f"user_codes_from:{network}", settings.wrong_codes),
            ("user_codes", settings.wrong_codes_everywhere),
        ):
            if wait := tx.throttles.take(bucket, Limit(most, settings.code_lifetime), now):
                tx.throttles.give_back(*taken)
                return wait
            taken.append(bucket)
        device_code = DeviceCodes.of(tx).find_by_user_code(key.fingerprint(USER_CODE, code))
        waiting = _waiting(tx, self.server, device_code, now)
        if waiting is not None:
            tx.throttles.give_back(*taken)
        return waiting

    def _deny(self, entered: _Entered, request: SignedInRequest, tx: Transaction) -> None:
        if not DeviceCodes.of(tx).deny(entered.code.fingerprint, request.now):
            raise Refused(_TOO_LATE)
        tx.events.add(ConsentDenied(request.user.uid, entered.client.id), request.now)

    def _allow(
        self,
        entered: _Entered,
        request: SignedInRequest,
        scope: Scope,
        consent_id: str,
        tx: Transaction,
    ) -> None:
        uid, now = request.user.uid, request.now
        tx.users.hold(uid)
        waiting = _waiting(tx, self.server, entered.code, now)
        if waiting is None or not scope <= waiting.scope:
            raise Refused(_TOO_LATE)
        client = waiting.client
        if not tx.groups.admits(uid, *required_groups(client, waiting.apis)):
            raise Refused(_NOT_ADMITTED)
        present = find_still_present(tx, request.session.id, client.id, self.server.sessions, now)
        if present is None or not _record_participant(tx, present, client, scope, request):
            raise Refused(_SIGNED_OUT)
        consent = Consent(uid, client.id, scope, client.appearance, now, id=consent_id)
        payload = CodePayload(
            uid=uid,
            scope=str(scope),
            redirect_uri="",
            redirect_uri_given=False,
            code_challenge="",
            nonce="",
            session_id=present.signed_in.session.id,
            auth_time=present.signed_in.session.auth_time,
            methods=present.signed_in.session.methods,
            client_generation=client.generation,
            user_generation=present.signed_in.user.generation,
            consent_id=remember_consent(tx, present.consent, consent, entered.scope),
            apis=entered.code.apis,
        )
        if not DeviceCodes.of(tx).allow(entered.code.fingerprint, payload.encode(), now):
            raise Refused(_TOO_LATE)
        note_sign_in(tx, client, now)
        tx.events.add(
            DeviceCodeAllowed(uid, client.id, entered.code.grant_id, str(plain(scope))), now
        )
        # In the order in which a request for a code counts.
        if entered.code.counted:
            tx.throttles.give_back(entered.code.counted, client_limit(client.id))


def _waiting(
    tx: Transaction, server: Server, code: DeviceCode | None, now: Instant
) -> _Entered | None:
    """Return what the user can still allow of the request with this code."""
    client = None if code is None else tx.clients.find(code.client_id)
    if (
        code is None
        or client is None
        or not code.is_pending(now)
        or client.disabled_at is not None
        or client.generation != code.client_generation
        or not client.may_use(GrantTypeName.DEVICE_CODE)
    ):
        return None
    apis = server.apis.granted(tx, code.apis, client)
    # The client's registered scope, or an API's, may have shrunk since.
    scope = code.scope & grantable(client, apis)
    return _Entered(code, client, apis, scope) if apis and scope else None


def _record_participant(
    tx: Transaction, present: LiveSession, client: Client, scope: Scope, request: SignedInRequest
) -> bool:
    """Record the client as a participant of the session; False if the session has ended."""
    if OPENID not in scope or present.is_participant:
        return True
    return tx.participants.add(present.signed_in.session.id, client.id, request.now)


_NOT_VALID = Refusal(
    ErrorCode.NOT_FOUND,
    "the code is unknown, has expired or was already used",
    "device.user_code",
    "a code that a device shows",
    "another code",
)
_TOO_LATE = Refusal(
    ErrorCode.CONFLICT,
    "the code has expired or was already used; start again on the device",
    "device.too_late",
)
_NOT_ADMITTED = Refusal(
    ErrorCode.FORBIDDEN, "you are not in a group that can use this app", "device.groups"
)
_SIGNED_OUT = Refusal(
    ErrorCode.CONFLICT,
    "you have been signed out; sign in and enter the code again",
    "device.signed_out",
)
