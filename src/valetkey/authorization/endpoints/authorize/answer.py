"""The transaction that answers an authorization request: re-check everything, then redeem.

Interactions and nonces are vouchers: an interaction yields at most one code.
"""

from collections.abc import Callable
from functools import cached_property

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import remember_consent
from valetkey.authorization.actions.registrations import note_sign_in
from valetkey.authorization.authentication.session import (
    LiveSession,
    SignedIn,
    find_still_present,
)
from valetkey.authorization.endpoints.authorize.pending import Pending, mark_of, signed_in_user
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.event.grants import (
    AccessTokenIssued,
    CodeIssued,
    ConsentDenied,
)
from valetkey.authorization.model.grant import Consent, Grant
from valetkey.authorization.model.register.api import generations, required_groups
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.model.voucher import CodePayload, Voucher, VoucherKind
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    parse,
    require_client,
)
from valetkey.authorization.protocol.authorization_response import verify_return_address
from valetkey.authorization.protocol.claims import OPENID, ClaimsRequest, claims_of_scope
from valetkey.authorization.protocol.interaction import (
    DENIED,
    Interaction,
    Refuse,
    Respond,
    Step,
    next_step,
    state_of,
)
from valetkey.authorization.protocol.resource import (
    RESOURCE,
    at,
    choose,
    issuable,
    plain,
    split,
)
from valetkey.authorization.protocol.response_type import ResponseType
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import Identity
from valetkey.authorization.tokens.issue import Granted, Issuing, TokenSecrets, issue_access_token
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret, same
from valetkey.kernel.words import translatable

NONCE_KEPT = days(1)
"""How long a client's nonce counts as used, so that a request cannot be replayed."""

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


class FlowSecrets:
    """The random values of an answer, generated once: a retried transaction uses the same."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        """Generate each value from `random` when it is first used."""
        self._random = random

    @cached_property
    def code(self) -> Secret:
        """The authorization code."""
        return fresh_secret(Prefix.CODE, self._random)

    @cached_property
    def grant_id(self) -> str:
        """The id of the grant that begins with the code."""
        return fresh_id("gr", self._random)

    @cached_property
    def consent_id(self) -> str:
        """The id of the consent, if it is the first."""
        return fresh_id("co", self._random)

    @cached_property
    def front_grant_id(self) -> str:
        """The id of the grant of tokens that are returned through the browser."""
        return fresh_id("gr", self._random)

    @cached_property
    def access(self) -> TokenSecrets:
        """The access token that is returned through the browser."""
        return TokenSecrets(self._random)


class Issued(Struct, frozen=True):
    """A granted request: the code, the access token's record, the content of the ID token.

    `session_id` is the session in which the client is a participant, "" for none.
    """

    asked: AuthorizationRequest
    code: Secret | None = None
    granted: Granted | None = None
    identity: Identity | None = None
    session_id: str = ""


class _Yes(Struct, frozen=True):
    """The user, the session, the client and scope of a granted request."""

    asked: AuthorizationRequest
    client: Client
    signed_in: SignedIn
    scope: Scope
    claims: ClaimsRequest
    told: bool
    consent_id: str


class ClientError(Struct, frozen=True):
    """The error response for the client."""

    asked: AuthorizationRequest
    refusal: Refusal


Answer = Issued | ClientError | Step
"""The result of an authorization request; a Step means that the user must be asked again."""


async def answer(server: Server, pending: Pending, now: Instant) -> Answer:
    """Answer the request of `pending`, unless something it depends on has ended.

    Raises Refused for errors that must be shown to the user only.
    """
    drawn = FlowSecrets(server.random)
    try:
        given = await server.claims.supply(
            lambda: server.store.write(
                lambda tx: _answer(tx, server, pending, drawn, now), done_by=USUAL_ACTOR
            )
        )
    except Refused as refused:
        # Nothing was written: the request stays open, and the client receives the error.
        if refused.refusal.check not in {"claims.size", "claims.file", "resource.ended"}:
            raise
        return ClientError(pending.asked, refused.refusal)
    if isinstance(given, Issued) and given.granted is not None:
        metrics.TOKENS.add(GrantTypeName.IMPLICIT.value, pending.client.type.value)
    return given


def _answer(
    tx: Transaction, server: Server, pending: Pending, drawn: FlowSecrets, now: Instant
) -> Answer:
    interaction = pending.interaction
    judged = _judged(tx, server, pending)
    if isinstance(judged, ClientError):
        return judged
    client, asked = judged
    present = _still_present(tx, server, pending, client, now)
    person = None if present is None else signed_in_user(server, present, client, pending.meant)
    required = required_groups(client, asked.apis)
    if required and person is not None and present is not None:
        admitted = tx.groups.admits(present.signed_in.user.uid, *required)
        person = replace(person, is_admitted=admitted)
    step = next_step(asked, state_of(interaction, asked, client, person, issuer=server.issuer), now)
    if isinstance(step, Refuse):
        return _record_denial(tx, server, pending, asked, step.refusal, now)
    if not isinstance(step, Respond) or present is None:
        return step
    if not _claim(tx, server, interaction, now):
        raise Refused(_ANSWERED)
    if asked.nonce and not _claim_nonce(tx, server, pending, asked, present.signed_in, now):
        return ClientError(asked, _NONCE_USED)
    consent_id = "" if present.consent is None else present.consent.id
    if step.asked:
        uid = present.signed_in.user.uid
        given = Consent(
            uid, client.id, step.scope, client.appearance, now, step.claims, drawn.consent_id
        )
        consent_id = remember_consent(tx, present.consent, given, asked.scope, asked.single_claims)
    # A claim is given by a scope or by itself, and in both ways only where it was allowed.
    claims = asked.claims.only(step.claims.union(claims_of_scope(step.scope)))
    return _issue(
        tx,
        server,
        _Yes(asked, client, present.signed_in, step.scope, claims, present.told, consent_id),
        drawn,
        now,
    )


def _judged(
    tx: Transaction, server: Server, pending: Pending
) -> tuple[Client, AuthorizationRequest] | ClientError:
    if server.directory.is_current(tx, pending.client) and server.apis.are_current(
        tx, pending.asked.apis
    ):
        # Neither the client nor the APIs changed since the request was validated.
        return pending.client, pending.asked
    found = tx.clients.find(pending.client.id)
    begun = pending.interaction
    # Disabled and enabled since the user was first asked: earlier interactions have ended.
    ended = found is not None and begun.browser and found.generation != begun.client_generation
    client = require_client(None if ended else found)
    parameters = begun.parameters
    returns = verify_return_address(parameters, client, pending.also)
    apis = server.apis.requested_in(tx, split(parameters.get(RESOURCE, "")), client)
    try:
        asked = parse(parameters, client, returns, apis, server.prompts)
    except Refused as refused:
        return ClientError(pending.asked, refused.refusal)
    return client, asked


def _still_present(
    tx: Transaction, server: Server, pending: Pending, client: Client, now: Instant
) -> LiveSession | None:
    if pending.signed_in is None:
        return None
    session_id = pending.signed_in.session.id
    tx.users.hold(pending.signed_in.user.uid)
    return find_still_present(tx, session_id, client.id, server.sessions, now)


def _record_denial(
    tx: Transaction,
    server: Server,
    pending: Pending,
    asked: AuthorizationRequest,
    refusal: Refusal,
    now: Instant,
) -> ClientError:
    if not _claim(tx, server, pending.interaction, now):
        raise Refused(_ANSWERED)
    if refusal is DENIED:
        uid = None if pending.signed_in is None else pending.signed_in.user.uid
        tx.events.add(ConsentDenied(uid, asked.client_id), now)
    return ClientError(asked, refusal)


def _claim(tx: Transaction, server: Server, interaction: Interaction, now: Instant) -> bool:
    """Redeem the interaction; True for the first response. One never shown needs no record."""
    if not interaction.browser:
        return True
    mark = mark_of(server, interaction)
    client_id, until = interaction.parameters["client_id"], interaction.expires_at
    return tx.vouchers.issue(Voucher(VoucherKind.INTERACTION, mark, client_id, "", "", until, now))


def _claim_nonce(
    tx: Transaction,
    server: Server,
    pending: Pending,
    asked: AuthorizationRequest,
    signed_in: SignedIn,
    now: Instant,
) -> bool:
    """Use a nonce once; True also for the same request of the same user in the same browser.

    Such a request is the Back button or a restored tab, and gets another code. A token through the
    browser is issued once for each nonce.
    """
    key = server.keyring.fingerprint_key
    mark = key.of("nonce", f"{asked.client_id}\0{asked.nonce}")
    # The scope was filled in if the request was shown to the user before.
    parameters = {**pending.interaction.parameters, "scope": str(plain(asked.scope))}
    said = [str(signed_in.user.uid), pending.browser, *sorted(parameters.items())]
    print_ = key.of("request of a nonce", msgspec.json.encode(said).decode())
    used = Voucher(
        VoucherKind.NONCE, mark, asked.client_id, "", print_, later(now, NONCE_KEPT), now
    )
    if tx.vouchers.issue(used):
        return True
    before = tx.vouchers.find(VoucherKind.NONCE, mark)
    is_code = asked.response_type is ResponseType.CODE
    return bool(is_code and pending.browser and before and same(before.payload, print_))


def _issue(tx: Transaction, server: Server, yes: _Yes, drawn: FlowSecrets, now: Instant) -> Issued:
    asked, session = yes.asked, yes.signed_in.session
    told = asked.is_openid and OPENID in yes.scope
    # A known participant is notified of sign-out in any case, and a code is checked again.
    known = yes.told and asked.response_type is ResponseType.CODE
    if told and not known and not tx.participants.add(session.id, yes.client.id, now):
        raise Refused(_SIGNED_OUT)
    identity = None
    if asked.response_type.has_id_token:
        identity = Identity(
            user=yes.signed_in.user,
            client=yes.client,
            auth_time=session.auth_time,
            methods=session.methods,
            sid=session.id,
            nonce=asked.nonce,
            claims=yes.claims,
            scope=yes.scope,
            # With another response type, the token endpoint and userinfo return these claims.
            with_scope_claims=asked.response_type is ResponseType.ID_TOKEN,
        )
        identity = server.claims.of_identity(tx, identity)
    issued = Issued(
        asked,
        code=_code(tx, server, yes, drawn, now) if asked.response_type.has_code else None,
        granted=_grant(tx, server, yes, drawn, now) if asked.response_type.has_token else None,
        identity=identity,
        session_id=session.id if told else "",
    )
    # Last: users and sessions are locked before rate limits.
    note_sign_in(tx, yes.client, now)
    return issued


def _code(tx: Transaction, server: Server, yes: _Yes, drawn: FlowSecrets, now: Instant) -> Secret:
    asked, user, session = yes.asked, yes.signed_in.user, yes.signed_in.session
    payload = CodePayload(
        uid=user.uid,
        scope=str(yes.scope),
        redirect_uri=asked.returns.redirect_uri,
        redirect_uri_given=asked.returns.given,
        code_challenge=asked.code_challenge,
        nonce=asked.nonce,
        session_id=session.id,
        auth_time=session.auth_time,
        methods=session.methods,
        claims=yes.claims.encode(),
        client_generation=yes.client.generation,
        user_generation=user.generation,
        consent_id=yes.consent_id,
        apis=generations(asked.apis),
    )
    tx.vouchers.issue(
        Voucher(
            kind=VoucherKind.CODE,
            fingerprint=server.keyring.fingerprint_key.of(CODE, drawn.code.reveal()),
            client_id=yes.client.id,
            grant_id=drawn.grant_id,
            payload=payload.encode(),
            expires_at=later(now, server.policy.authorization_code_lifetime),
        )
    )
    event = CodeIssued(user.uid, yes.client.id, drawn.grant_id, pkce=bool(asked.code_challenge))
    tx.events.add(event, now)
    return drawn.code


def _grant(tx: Transaction, server: Server, yes: _Yes, drawn: FlowSecrets, now: Instant) -> Granted:
    """Issue one short-lived access token, without a refresh token (RFC 6749 section 4.2)."""
    client, user, session = yes.client, yes.signed_in.user, yes.signed_in.session
    api = choose((), issuable(yes.asked.apis, yes.scope, server.apis.default))
    if isinstance(api, Refusal):
        # None of the allowed scopes is left at any of the APIs.
        raise Refused(api)
    scope, policy = at(api, yes.scope), server.policy
    lifetime = min(policy.lifetime_of(client, api), policy.implicit_token_lifetime)
    grant = Grant(
        id=drawn.front_grant_id,
        client_id=client.id,
        uid=user.uid,
        session_id=session.id if client.ends_with_session else "",
        scope=yes.scope,
        audience=api.identifier,
        grant_type=GrantTypeName.IMPLICIT.value,
        auth_time=session.auth_time,
        created_at=now,
        last_used_at=now,
        expires_at=later(now, lifetime),
        sid=session.id,
        methods=session.methods,
        claims=yes.claims.encode(),
        client_generation=client.generation,
        user_generation=user.generation,
    )
    tx.grants.issue(grant, generations((api,)))
    granted = issue_access_token(
        tx,
        Issuing(
            client=client,
            scope=scope,
            api=api,
            claims=server.claims,
            draw=drawn.access,
            lifetime=lifetime,
            now=now,
            user=user,
            grant_id=grant.id,
            auth_time=grant.auth_time,
            ends_at=grant.expires_at,
        ),
        server.keyring.fingerprint_key,
    )
    said = (granted.token_id, grant.grant_type, str(scope), api.identifier)
    event = AccessTokenIssued(client.id, user.uid, grant.id, *said)
    tx.events.add(event, now)
    return granted
