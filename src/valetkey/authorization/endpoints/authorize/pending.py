"""A pending request: the sealed interaction in the URL, decrypted and checked again."""

from collections.abc import Mapping

from msgspec import Struct

from valetkey.authorization.authentication.session import LiveSession, SignedIn
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.model.register.api import required_groups
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.model.voucher import VoucherKind
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    parse,
    plausible_client_id,
    require_client,
)
from valetkey.authorization.protocol.authorization_response import (
    ReturnAddress,
    verify_return_address,
)
from valetkey.authorization.protocol.interaction import (
    BEGINS_AGAIN,
    Interaction,
    InteractionState,
    SignedInUser,
    Step,
    is_bound_to,
    next_step,
    state_of,
)
from valetkey.authorization.protocol.resource import RESOURCE
from valetkey.kernel.moment import Instant, is_live, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Fingerprint, fresh_id
from valetkey.kernel.url import origin
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Interrupt, Request, see_other
from valetkey.web.form import read_query


class Pending(Struct, frozen=True):
    """A pending authorization request: its parameters, client, user and state.

    `meant` are the subjects that the request names; the user must be all of them. `also` is a
    return address beside the client's redirect URIs, "" for none. `browser` is the fingerprint of
    this browser, "" without a cookie. `form_of` is the interaction to which forms of the arriving
    page are bound: another one if that has expired and begins again.
    """

    interaction: Interaction
    asked: AuthorizationRequest
    client: Client
    meant: frozenset[str]
    signed_in: SignedIn | None
    known: InteractionState
    step: Step
    also: str = ""
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


async def find_and_prove(
    server: Server, parameters: Mapping[str, str], also: str = ""
) -> tuple[Client, ReturnAddress]:
    """Return the client and its redirect URI; refused if either is unknown."""
    client = await find_client(server, parameters.get("client_id"))
    try:
        return client, verify_return_address(parameters, client, also)
    except Refused:
        # It may have registered the address a moment ago, with another process.
        client = require_client(await server.directory.find_again(client.id))
        return client, verify_return_address(parameters, client, also)


def sealed_in(request: Request) -> str:
    """Return the sealed interaction in the URL of the request, "" for none."""
    return read_query(request.query).get("interaction") or ""


async def open_interaction(server: Server, request: Request, sealed: str) -> Interaction:
    """Return the interaction if it belongs to this browser, or to none yet; it may have expired.

    Refused with `invalid_request` when it is too old, with `forbidden` in another browser. Nothing
    of it is given to another browser, as its `state` would be: the way on leads to the app.
    """
    interaction = Interaction.open(sealed, server.keyring.sealer)
    if interaction is None:
        raise _refused("the address is incomplete; go back to the app and start again", "sealed")
    if interaction.browser and not is_bound_to(interaction, _browser(server, request)):
        refusal = replace(_OTHER_BROWSER, leads_to=await _app_of(server, interaction))
        raise Refused(refusal)
    if not is_live(interaction.started_at, later(interaction.started_at, BEGINS_AGAIN), request.at):
        raise Refused(replace(_EXPIRED, leads_to=await _app_of(server, interaction)))
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
        raise _refused("the address is incomplete; go back to the app and start again", "unbound")
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


def sealed_for(server: Server, pending: Pending, sealed: str) -> str:
    """Return the sealed interaction for the addresses of the next pages."""
    if not pending.begins_again:
        return sealed
    return pending.interaction.seal(server.keyring.sealer, server.random)


def mark_of(server: Server, interaction: Interaction) -> Fingerprint:
    """Return the fingerprint under which an answered interaction is marked."""
    return server.keyring.fingerprint_key.of("interaction", interaction.id)


async def check_interaction(server: Server, request: Request, interaction: Interaction) -> Pending:
    """Check everything about an interaction again. Raises Interrupt and Refused as above.

    One that has expired, or whose client was disabled meanwhile, begins again as a new interaction
    without what the user has done so far.
    """
    form_of = interaction.id
    also = await _own_callback(server, request, interaction.parameters)
    client, returns = await find_and_prove(server, interaction.parameters, also)
    if interaction.browser and interaction.client_generation != client.generation:
        # Another process may have begun this after it enabled the client a moment ago.
        client = require_client(await server.directory.find_again(client.id))
    has_ended = interaction.browser and interaction.client_generation != client.generation
    if has_ended or not interaction.is_live(request.at):
        interaction = _again(server, interaction, client, request.at)
    resource = interaction.parameters.get(RESOURCE, "")
    apis = await server.apis.requested(resource, client)
    try:
        asked = parse(interaction.parameters, client, returns, apis, server.prompts)
        meant = await _meant(server, asked, client, request.at)
    except Refused as refused:
        raise Interrupt(server.back(returns, refused.refusal, client, request.at)) from None
    present = await server.present(request, client.id)
    person = None if present is None else signed_in_user(server, present, client, meant)
    signed_in = None if present is None else present.signed_in
    required = required_groups(client, asked.apis)
    if required and person is not None and signed_in is not None:
        uid = signed_in.user.uid
        admitted = await server.store.read(lambda tx: tx.groups.admits(uid, *required))
        person = replace(person, is_admitted=admitted)
    known = state_of(interaction, asked, client, person, issuer=server.issuer)
    step = next_step(asked, known, request.at)
    return Pending(
        interaction,
        asked,
        client,
        meant,
        signed_in,
        known,
        step,
        also,
        _browser(server, request) or "",
        form_of,
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
        client, returns = await find_and_prove(server, interaction.parameters)
    except Refused:
        return ""
    if client.openid.client_uri or client.is_native:
        return client.openid.client_uri
    at = returns.redirect_uri
    return f"{origin(at)}/" if at.startswith(("https://", "http://")) else ""


async def _own_callback(server: Server, request: Request, parameters: Mapping[str, str]) -> str:
    """Return the callback on this server that is valid in this session, or ""."""
    callback = server.own_callback(parameters, request.at)
    if callback is None:
        return ""
    signed_in = await server.signed_in(request)
    began_here = signed_in is not None and signed_in.session.id == callback.session_id
    return callback.redirect_uri if began_here else ""


def signed_in_user(
    server: Server, present: LiveSession, client: Client, meant: frozenset[str]
) -> SignedInUser:
    """Return the signed-in user in the form that the protocol rules use."""
    session = present.signed_in.session
    is_meant = not meant or meant <= {server.subjects.of(present.signed_in.user, client)}
    return SignedInUser(session.id, session.auth_time, present.consent, session.methods, is_meant)


async def _meant(
    server: Server, asked: AuthorizationRequest, client: Client, now: Instant
) -> frozenset[str]:
    named = {asked.claims.subject}
    if asked.id_token_hint:
        named.add((await server.hints.read(asked.id_token_hint, client, now)).subject)
    return frozenset(named - {""})


def address(server: Server, path: str, interaction: Interaction) -> str:
    """Return the URL of the page at `path` for this interaction."""
    return f"{path}?interaction={interaction.seal(server.keyring.sealer, server.random)}"


def decides_again(server: Server, interaction: Interaction) -> str:
    """Return the URL to which every form of these pages leads: the authorization endpoint."""
    return address(server, AUTHORIZE, interaction)


_OTHER_BROWSER = Refusal(
    ErrorCode.FORBIDDEN,
    translatable(
        "this request was started in another browser, or cookies are disabled; start again here"
    ),
    "interaction.browser",
    "the browser in which it began",
    "another browser",
)
_EXPIRED = Refusal(
    ErrorCode.INVALID_REQUEST,
    translatable("this took too long; go back to the app and start again"),
    "interaction.expired",
)


def _refused(description: str, check: str) -> Refused:
    return Refused.because(ErrorCode.INVALID_REQUEST, description, f"interaction.{check}")
