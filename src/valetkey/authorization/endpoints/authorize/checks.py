"""The route of an authorization request: its checks, in the order in which they are made.

The lists follow each other. An interaction comes back to CLIENT_CHECKS at every step, until it is
answered in a transaction, which makes the three lists under "judged again" once more.
"""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from valetkey.authorization.authentication.session import LiveSession, find_still_present
from valetkey.authorization.endpoints.authorize import pending as server_checks
from valetkey.authorization.endpoints.authorize.pending import (
    Arrival,
    Judgement,
    Pending,
    Server,
    decides_again,
    mark_of,
    named_subjects,
    sealed_in,
)
from valetkey.authorization.endpoints.authorize.request_object import ObjectRefused
from valetkey.authorization.model.api import required_groups
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.protocol import authorization_request as parameter
from valetkey.authorization.protocol import interaction as steps
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    RequestDraft,
    known_parameters,
    plausible_client_id,
)
from valetkey.authorization.protocol.interaction import (
    Interaction,
    InteractionState,
    Progress,
    SignedInUser,
    Step,
    respond,
    state_of,
)
from valetkey.authorization.protocol.resource import RESOURCE, split
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, fresh_id
from valetkey.kernel.text import translatable
from valetkey.kernel.url import origin
from valetkey.web.body import Form
from valetkey.web.exchange import Interrupt, Request, see_other

ARRIVAL_CHECKS: tuple[Callable[[Arrival], Awaitable[None]], ...] = (
    server_checks.check_one_place,
    server_checks.check_client_document,
)
"""Once, when the request arrives. Refusals are shown to the user."""

OBJECT_CHECKS: tuple[Callable[[Arrival], Awaitable[None]], ...] = (
    server_checks.check_request_object,
)
"""Once, after those. Refusals are returned to the client, if the next list but one passes."""

INTERACTION_CHECKS: tuple[Callable[[Interaction, Fingerprint | None, Instant], None], ...] = (
    steps.check_browser,
    steps.check_age,
)
"""Whenever a page sends the browser back with the interaction. Refusals are shown to the user."""

CLIENT_CHECKS: tuple[Callable[[RequestDraft], None], ...] = (
    parameter.check_client,
    parameter.check_redirect_uri,
)
"""At every step, and judged again. Refusals are shown to the user: nothing may be redirected."""

PARAMETER_CHECKS: tuple[Callable[[RequestDraft], None], ...] = (
    parameter.check_state,
    parameter.check_unsupported,
    parameter.check_response_type,
    parameter.check_response_mode,
    parameter.check_permitted_type,
    parameter.check_resource,
    parameter.check_scope,
    parameter.check_openid_scope,
    parameter.check_offline_access,
    parameter.check_nonce,
    parameter.check_pkce,
    parameter.check_prompt,
    parameter.check_max_age,
    parameter.check_login_hint,
    parameter.check_id_token_hint,
    parameter.check_claims,
)
"""At every step, and judged again. Refusals are returned to the client."""

STEP_CHECKS: tuple[Callable[[Progress], Step | None], ...] = (
    steps.check_denial,
    steps.check_known_acr,
    steps.check_signed_in,
    steps.check_named_user,
    steps.check_acr,
    steps.check_sign_in_age,
    steps.check_required_factor,
    steps.check_groups,
    steps.check_decision,
    steps.check_consent,
    steps.check_assured_identity,
)
"""At every step, and judged again. The first that does not pass returns the next step."""

ANSWER_CHECKS: tuple[Callable[[Transaction, Judgement], Refusal | None], ...] = (
    server_checks.check_unanswered,
    server_checks.check_unused_nonce,
    server_checks.check_open_session,
)
"""In the transaction alone. A refusal that is returned goes to the client, others to the user."""


class ClientError(Struct, frozen=True):
    """The error response for the client."""

    authorization: AuthorizationRequest
    refusal: Refusal


def judge_client(draft: RequestDraft) -> None:
    """Make the checks that establish the client and its return address."""
    for check in CLIENT_CHECKS:
        check(draft)


def judge_parameters(draft: RequestDraft) -> AuthorizationRequest:
    """Make the checks of the other parameters."""
    for check in PARAMETER_CHECKS:
        check(draft)
    return draft.request()


def next_step(request: AuthorizationRequest, state: InteractionState, now: Instant) -> Step:
    """Return the step of the first check that is not met, or the response."""
    progress = Progress(request, state, now)
    for check in STEP_CHECKS:
        step = check(progress)
        if step is not None:
            return step
    return respond(progress)


def judge_again(
    tx: Transaction, server: Server, pending: Pending, now: Instant
) -> Judgement | ClientError:
    """Judge the request again, by what this transaction reads and holds until it writes.

    The client and the parameters only if the client or an API changed since.
    """
    client, authorization = pending.client, pending.authorization
    if not (
        server.directory.is_current(tx, client) and server.apis.are_current(tx, authorization.apis)
    ):
        draft = _draft_again(tx, server, pending)
        judge_client(draft)
        client = draft.client
        resources = split(draft.parameters.get(RESOURCE, ""))
        draft.targets = server.apis.requested_in(tx, resources, client)
        try:
            authorization = judge_parameters(draft)
        except Refused as refused:
            return ClientError(authorization, refused.refusal)
    session, user = None, None
    if pending.signed_in is not None:
        tx.users.hold(pending.signed_in.user.uid)
        session_id = pending.signed_in.session.id
        session = find_still_present(tx, session_id, client.id, server.sessions, now)
    if session is not None:
        required = required_groups(client, authorization.apis)
        admitted = not required or tx.groups.admits(session.signed_in.user.uid, *required)
        user = _signed_in_user(server, session, client, pending.subjects, admitted=admitted)
    state = state_of(pending.interaction, authorization, client, user, issuer=server.issuer)
    step = next_step(authorization, state, now)
    return Judgement(server, pending, authorization, client, session, step, now)


def redeem(tx: Transaction, judged: Judgement) -> Refusal | None:
    """Make the checks of which each uses something up. Return the refusal for the client."""
    refusals = (check(tx, judged) for check in ANSWER_CHECKS)
    return next((refusal for refusal in refusals if refusal is not None), None)


def _draft_again(tx: Transaction, server: Server, pending: Pending) -> RequestDraft:
    client, interaction = tx.clients.find(pending.client.id), pending.interaction
    if client is not None and interaction.browser:
        # Disabled and enabled since the user was first asked: earlier interactions have ended.
        client = client if client.generation == interaction.client_generation else None
    return RequestDraft(interaction.parameters, client, server.prompts, pending.own_callback)


async def begin(server: Server, request: Request, query: Form, body: Form) -> Interaction:
    """Return the interaction of a request that arrives. Raises Interrupt and Refused."""
    arrival = Arrival(server, request, query, body)
    for check in ARRIVAL_CHECKS:
        await check(arrival)
    try:
        for check in OBJECT_CHECKS:
            await check(arrival)
    except Refused as refused:
        if isinstance(refused, ObjectRefused):
            arrival.parameters = known_parameters(refused.parameters)
        draft = await find_and_prove(server, arrival.parameters)
        response = server.back(draft.returns, refused.refusal, draft.client, request.at)
        raise Interrupt(response) from None
    return Interaction(fresh_id("in", server.random), arrival.parameters, "", request.at)


async def find_and_prove(
    server: Server, parameters: Mapping[str, str], own_callback: str = ""
) -> RequestDraft:
    """Return the request with its client and return address; refused if either is unknown."""
    plausible = plausible_client_id(parameters.get("client_id"))
    client = None if plausible is None else await server.directory.find(plausible)
    draft = RequestDraft(parameters, client, server.prompts, own_callback)
    try:
        judge_client(draft)
    except Refused:
        if client is None:
            raise
        # Another process may have changed the client a moment ago.
        draft.found_client = await server.directory.find_again(client.id)
        judge_client(draft)
    return draft


async def open_interaction(server: Server, request: Request, sealed: str) -> Interaction:
    """Return the interaction if it belongs to this browser, or to none yet; it may have expired.

    Refused with `invalid_request` when it is too old, with `forbidden` in another browser. Nothing
    of it is given to another browser, as its `state` would be: the way on leads to the app.
    """
    interaction = Interaction.open(sealed, server.keyring.sealer)
    if interaction is None:
        raise _incomplete("sealed")
    browser = _browser(server, request)
    try:
        for check in INTERACTION_CHECKS:
            check(interaction, browser, request.at)
    except Refused as refused:
        leads_to = await _app_of(server, interaction)
        raise Refused(replace(refused.refusal, leads_to=leads_to)) from None
    return interaction


async def open_pending(server: Server, request: Request) -> Pending:
    """Return the authorization request behind a page of this server.

    A page of an interaction that has expired or was answered is not shown again: the request begins
    again at the authorization endpoint. A form of an expired one is read, and its request begins
    again with what was entered.

    Raises Interrupt if an error is sent to the client, Refused for errors shown to the user only.
    """
    interaction = await open_interaction(server, request, sealed_in(request))
    if not interaction.browser:
        raise _incomplete("unbound")
    pending = await check_interaction(server, request, interaction)
    if request.method != "GET":
        return pending
    again = pending.interaction
    mark = mark_of(server, interaction)
    if await server.store.read(lambda tx: tx.vouchers.find(VoucherKind.INTERACTION, mark)):
        again = _again(server, again, pending.client, request.at)
    if again.id != interaction.id:
        raise Interrupt(see_other(decides_again(server, again)))
    return pending


async def check_interaction(server: Server, request: Request, interaction: Interaction) -> Pending:
    """Check everything about an interaction again. Raises Interrupt and Refused as above.

    One that has expired, or whose client was disabled since, begins again as a new interaction
    without what the user has done so far.
    """
    form_of = interaction.id
    own_callback = await _own_callback(server, request, interaction.parameters)
    draft = await find_and_prove(server, interaction.parameters, own_callback)
    if interaction.browser and interaction.client_generation != draft.client.generation:
        # Another process may have begun this after it enabled the client a moment ago.
        draft.found_client = await server.directory.find_again(draft.client.id)
        judge_client(draft)
    client = draft.client
    has_ended = interaction.browser and interaction.client_generation != client.generation
    if has_ended or not interaction.is_live(request.at):
        interaction = _again(server, interaction, client, request.at)
    resource = interaction.parameters.get(RESOURCE, "")
    draft.targets = await server.apis.requested(resource, client)
    try:
        authorization = judge_parameters(draft)
        subjects = await named_subjects(server, authorization, client, request.at)
    except Refused as refused:
        response = server.back(draft.returns, refused.refusal, client, request.at)
        raise Interrupt(response) from None
    session, user = await server.present(request, client.id), None
    if session is not None:
        required, uid = required_groups(client, authorization.apis), session.signed_in.user.uid
        admitted = not required or await server.store.read(
            lambda tx: tx.groups.admits(uid, *required)
        )
        user = _signed_in_user(server, session, client, subjects, admitted=admitted)
    state = state_of(interaction, authorization, client, user, issuer=server.issuer)
    return Pending(
        interaction,
        authorization,
        client,
        subjects,
        None if session is None else session.signed_in,
        state,
        next_step(authorization, state, request.at),
        own_callback,
        _browser(server, request) or "",
        form_of,
    )


def _signed_in_user(
    server: Server, live: LiveSession, client: Client, subjects: frozenset[str], *, admitted: bool
) -> SignedInUser:
    """Return the signed-in user in the form that the protocol rules use."""
    session = live.signed_in.session
    is_meant = not subjects or subjects <= {server.subjects.subject_of(live.signed_in.user, client)}
    return SignedInUser(
        session.id,
        session.auth_time,
        live.consent,
        session.methods,
        is_meant,
        admitted,
        live.signed_in.must_add_factor,
    )


def _again(server: Server, interaction: Interaction, client: Client, now: Instant) -> Interaction:
    """Return a new interaction of the same request in the same browser."""
    return Interaction(
        fresh_id("in", server.random),
        interaction.parameters,
        interaction.browser,
        now,
        client_generation=client.generation,
    )


def _browser(server: Server, request: Request) -> Fingerprint | None:
    return server.cookies.browser_fingerprint(server.cookies.browser(request))


async def _app_of(server: Server, interaction: Interaction) -> str:
    """Return the URL of the client's app; "" if it has none that a browser can open."""
    try:
        draft = await find_and_prove(server, interaction.parameters)
    except Refused:
        return ""
    if draft.client.openid.client_uri or draft.client.is_native:
        return draft.client.openid.client_uri
    at = draft.returns.redirect_uri
    return f"{origin(at)}/" if at.startswith(("https://", "http://")) else ""


async def _own_callback(server: Server, request: Request, parameters: Mapping[str, str]) -> str:
    """Return the callback on this server that is valid in this session, or ""."""
    callback = server.own_callback(parameters, request.at)
    if callback is None:
        return ""
    signed_in = await server.signed_in(request)
    began_here = signed_in is not None and signed_in.session.id == callback.session_id
    return callback.redirect_uri if began_here else ""


def _incomplete(check: str) -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST,
        translatable("the address is incomplete; go back to the app and start again"),
        f"interaction.{check}",
    )
