"""A pending authorization request, and the checks of it that need the server."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.client_documents import ClientDocuments
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import LiveSession, SignedIn
from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.endpoints.authorize.request_object import (
    REQUEST,
    REQUEST_URI,
    WORTH_NEW_KEYS,
    ObjectRefused,
    RequestObjects,
)
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import FormPostPage
from valetkey.authorization.layout.render import content_security_policy, render
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    Prompt,
    known_parameters,
    plausible_client_id,
    require_client,
)
from valetkey.authorization.protocol.authorization_response import (
    ResponseMode,
    ResponseType,
    ReturnAddress,
    answer,
    error_answer,
    redirect_to,
)
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.interaction import Interaction, InteractionState, Respond, Step
from valetkey.authorization.protocol.resource import AUDIENCE, RESOURCE, joined, plain
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.id_token import IdTokenHints, Subjects
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint, same, to_base64url
from valetkey.kernel.text import translatable
from valetkey.web.body import Form, read_query
from valetkey.web.exchange import Pairs, Request, Response, html_response, see_other


class SessionCallback(Protocol):
    """A redirect URI on this server, for requests in one session only."""

    @property
    def redirect_uri(self) -> str:
        """The registered redirect URI that this callback stands for."""
        ...

    @property
    def session_id(self) -> str:
        """The only session whose requests may use it."""
        ...


OwnCallback = Callable[[Mapping[str, str], Instant], SessionCallback | None]
"""Returns the callback on this server that these parameters of a request name; None for none."""


class Server(Browsers, frozen=True):
    """Clients, policies and responses to apps.

    `scopes` has the description of each scope that can be requested from users, `prompts` the
    supported values of `prompt`. `own_callback` returns the callback on this server that these
    parameters ask for at this time, if any.
    """

    directory: ClientDirectory
    apis: ApiDirectory
    claims: TokenClaims
    policy: TokenPolicy
    brands: CurrentBrand
    decisions: ClientDecisionQueue
    scopes: Mapping[str, str]
    prompts: Collection[Prompt]
    requests: RequestObjects
    documents: ClientDocuments
    hints: IdTokenHints
    own_callback: OwnCallback

    @property
    def brand(self) -> Brand:
        """Return the current brand."""
        return self.brands.current

    @property
    def subjects(self) -> Subjects:
        """The subject identifiers by which each client knows a user."""
        return Subjects(self.keyring.fingerprint_key)

    def back(
        self, returns: ReturnAddress, refusal: Refusal, client: Client, at: Instant
    ) -> Response:
        """Send an error response to the client; the reference is for its developers."""
        reference = self.decisions.enqueue(refusal, endpoint=AUTHORIZE, at=at, client_id=client.id)
        pairs = error_answer(returns, self.issuer, refusal, reference)
        return self._carry(returns, pairs, client)

    def answer(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        """Send a success response to the client: `pairs`, its state and the issuer."""
        return self._carry(returns, answer(returns, self.issuer, pairs), client)

    def _carry(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        if returns.mode is not ResponseMode.FORM_POST:
            return see_other(redirect_to(returns, pairs))
        nonce = to_base64url(self.random(16))
        page = FormPostPage(returns.redirect_uri, pairs, client.name or client.id, nonce)
        policy = content_security_policy(returns_to=returns.redirect_uri, script_nonce=nonce)
        return html_response(render(page, brand=self.brand), 200, policy)


NONCE_KEPT = days(1)
"""How long a client's nonce counts as used, so that a request cannot be replayed."""


@dataclass(slots=True)
class Arrival:
    """A request as it arrives: in the query, or in the body of a POST.

    `parameters` are the known ones, those of its request object included once that was checked.
    """

    server: Server
    request: Request
    query: Form
    body: Form
    parameters: Mapping[str, str] = field(init=False)

    def use(self, parameters: Mapping[str, str]) -> None:
        """Take these parameters, their APIs as values of `resource`."""
        apis = self.server.apis.named(parameters.get(RESOURCE, ""), parameters.get(AUDIENCE))
        self.parameters = known_parameters({**parameters, RESOURCE: apis})


async def check_one_place(arrival: Arrival) -> None:
    """Require all parameters in the query, or all in the body (RFC 6749 section 3.1)."""
    if len(arrival.query) and len(arrival.body):
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "parameters came in the query and in the body; send all of them in one place",
            "authorize.split",
            "one place",
            "two places",
        )
    form = arrival.body if len(arrival.body) else arrival.query
    values = {name: form.get(name) or "" for name in form.names}
    if RESOURCE in values:
        values[RESOURCE] = joined(form.all(RESOURCE))
    arrival.use(values)


async def check_client_document(arrival: Arrival) -> None:
    """Require a usable document of a client whose id is its URL (Client ID Metadata Document 4)."""
    request, client_id = arrival.request, arrival.parameters.get("client_id")
    await arrival.server.documents.update_from_document(client_id, request.address, request.at)


async def check_request_object(arrival: Arrival) -> None:
    """Require a valid request object, and merge it (RFC 9101 section 6, Core section 6.3).

    Resolved once: the object at the URL may differ later.
    """
    parameters, server, now = arrival.parameters, arrival.server, arrival.request.at
    if parameters.keys().isdisjoint({REQUEST, REQUEST_URI}):
        return
    client = await find_client(server, parameters.get("client_id"))
    try:
        merged = await server.requests.resolve(parameters, client, now)
    except ObjectRefused as refused:
        if refused.refusal.check not in WORTH_NEW_KEYS:
            raise
        # Its keys may have changed a moment ago: in its document, or with another process.
        await server.documents.renew(client.id, now, lacks_key=True)
        current = await server.directory.find_again(client.id)
        if current is None or current is client:
            raise
        merged = await server.requests.resolve(parameters, require_client(current), now)
    arrival.use(merged)


class Pending(Struct, frozen=True):
    """A pending authorization request: its parameters, client, user and state.

    `subjects` are those that the request names; the user must be all of them. `own_callback` is a
    return address on this server beside the client's redirect URIs, "" for none. `browser` is the
    fingerprint of this browser, "" without a cookie. `form_of` is the interaction to which forms of
    the arriving page are bound: another one if that has expired and begins again.
    """

    interaction: Interaction
    authorization: AuthorizationRequest
    client: Client
    subjects: frozenset[str]
    signed_in: SignedIn | None
    state: InteractionState
    step: Step
    own_callback: str = ""
    browser: str = ""
    form_of: str = ""

    @property
    def begins_again(self) -> bool:
        """Return whether this is a new interaction in place of one that ended unanswered."""
        return self.interaction.id != self.form_of


async def find_client(server: Server, client_id: str | None) -> Client:
    """Return the client that this parameter names; refused if it is unknown or disabled."""
    plausible = plausible_client_id(client_id)
    return require_client(None if plausible is None else await server.directory.find(plausible))


async def named_subjects(
    server: Server, authorization: AuthorizationRequest, client: Client, now: Instant
) -> frozenset[str]:
    """Return the subjects that the request names, by a hint that is ours (Core 3.1.2.1, 5.5.1)."""
    subjects = {authorization.claims.subject}
    if authorization.id_token_hint:
        hint = await server.hints.read(authorization.id_token_hint, client, now)
        subjects.add(hint.subject)
    return frozenset(subjects - {""})


class Judgement(Struct, frozen=True):
    """A request as the transaction that answers it judged it; `step` says what to answer."""

    server: Server
    pending: Pending
    authorization: AuthorizationRequest
    client: Client
    session: LiveSession | None
    step: Step
    now: Instant

    @property
    def signed_in(self) -> SignedIn:
        """The signed-in user. LookupError unless the step is to respond."""
        if self.session is None:
            raise LookupError
        return self.session.signed_in

    @property
    def scope(self) -> Scope:
        """What the user allowed, in the form that grants store."""
        return self.step.scope if isinstance(self.step, Respond) else Scope()

    @property
    def is_openid(self) -> bool:
        """Whether the client becomes a participant of the session."""
        return self.authorization.is_openid and OPENID in self.scope


def check_unanswered(tx: Transaction, judged: Judgement) -> Refusal | None:
    """Redeem the interaction, which has one response (RFC 6749 section 10.5).

    One that no browser has opened needs no record.
    """
    interaction = judged.pending.interaction
    if not interaction.browser:
        return None
    mark = mark_of(judged.server, interaction)
    client_id, until = interaction.parameters["client_id"], interaction.expires_at
    redeemed = Voucher(VoucherKind.INTERACTION, mark, client_id, "", "", until, judged.now)
    if not tx.vouchers.issue(redeemed):
        raise Refused(_ANSWERED)
    return None


def check_unused_nonce(tx: Transaction, judged: Judgement) -> Refusal | None:
    """Use the nonce once, or for the same request of the same user and browser (Core 15.5.2).

    Such a request is the Back button or a restored tab, and gets another code. A token through the
    browser is issued once for each nonce.
    """
    authorization, pending, now = judged.authorization, judged.pending, judged.now
    if not authorization.nonce:
        return None
    key = judged.server.keyring.fingerprint_key
    mark = key.fingerprint("nonce", f"{authorization.client_id}\0{authorization.nonce}")
    # The scope was filled in if the request was shown to the user before.
    parameters = {**pending.interaction.parameters, "scope": str(plain(authorization.scope))}
    parts = [str(judged.signed_in.user.uid), pending.browser, *sorted(parameters.items())]
    fingerprint = key.fingerprint("request of a nonce", msgspec.json.encode(parts).decode())
    until = later(now, NONCE_KEPT)
    used = Voucher(VoucherKind.NONCE, mark, judged.client.id, "", fingerprint, until, now)
    if tx.vouchers.issue(used):
        return None
    before = tx.vouchers.find(VoucherKind.NONCE, mark)
    is_code = authorization.response_type is ResponseType.CODE
    if is_code and pending.browser and before and same(before.payload, fingerprint):
        return None
    return _NONCE_USED


def check_open_session(tx: Transaction, judged: Judgement) -> Refusal | None:
    """Record the client, to be notified of the sign-out (Back-Channel Logout 1.0 section 2.5)."""
    # A known participant is notified of sign-out in any case, and a code is checked again.
    is_code = judged.authorization.response_type is ResponseType.CODE
    is_known = judged.session is not None and judged.session.is_participant
    if not judged.is_openid or (is_known and is_code):
        return None
    session_id = judged.signed_in.session.id
    if not tx.participants.add(session_id, judged.client.id, judged.now):
        raise Refused(_SIGNED_OUT)
    return None


def sealed_in(request: Request) -> str:
    """Return the sealed interaction in the URL of the request, "" for none."""
    return read_query(request.query).get("interaction") or ""


def sealed_for(server: Server, pending: Pending, sealed: str) -> str:
    """Return the sealed interaction for the addresses of the next pages."""
    if not pending.begins_again:
        return sealed
    return pending.interaction.seal(server.keyring.sealer, server.random)


def mark_of(server: Server, interaction: Interaction) -> Fingerprint:
    """Return the fingerprint under which an answered interaction is marked."""
    return server.keyring.fingerprint_key.fingerprint("interaction", interaction.id)


def address(server: Server, path: str, interaction: Interaction) -> str:
    """Return the URL of the page at `path` for this interaction."""
    return f"{path}?interaction={interaction.seal(server.keyring.sealer, server.random)}"


def decides_again(server: Server, interaction: Interaction) -> str:
    """Return the URL to which every form of these pages leads: the authorization endpoint."""
    return address(server, AUTHORIZE, interaction)


_ANSWERED = Refusal(
    ErrorCode.INVALID_REQUEST,
    translatable("this request was already answered; go back to the app"),
    "interaction.answered",
    "a request that is still open",
    "one that was answered",
)
_NONCE_USED = Refusal(
    ErrorCode.INVALID_REQUEST,
    "nonce was used before; every request needs a fresh one",
    "nonce.used",
    "a nonce this client did not use in the last 24 hours",
    "a used nonce",
)
_SIGNED_OUT = Refusal(
    ErrorCode.INVALID_REQUEST,
    translatable("you have been signed out; go back to the app and start again"),
    "interaction.signed_out",
    "a session that has not ended",
    "one that ended",
)
