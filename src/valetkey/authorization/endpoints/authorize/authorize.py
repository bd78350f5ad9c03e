"""GET and POST /oauth/authorize: the authorization endpoint, and its answer (RFC 6749 3.1).

Interactions and nonces are vouchers: an interaction yields at most one code.

Every decision is made here, by the checks of `checks.py`; pages collect input and send the browser
back.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import remember_consent
from valetkey.authorization.actions.registrations import note_sign_in
from valetkey.authorization.email.notices import SIGN_UP
from valetkey.authorization.endpoints.authorize.checks import (
    ClientError,
    begin,
    check_interaction,
    find_and_prove,
    judge_again,
    open_interaction,
    redeem,
)
from valetkey.authorization.endpoints.authorize.pending import (
    Judgement,
    Pending,
    Server,
    address,
    check_unanswered,
    decides_again,
)
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.layout.addresses import CONSENT, REQUIRED_FACTOR, SIGN_IN
from valetkey.authorization.layout.viewer import requested_languages_cookie
from valetkey.authorization.model.api import generations
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.event.grants import AccessTokenIssued, CodeIssued, ConsentDenied
from valetkey.authorization.model.grant import CodePayload, Consent, Grant, Voucher, VoucherKind
from valetkey.authorization.protocol.authorization_request import (
    PARAMETERS,
    UI_LOCALES,
    UNSUPPORTED,
    AuthorizationRequest,
)
from valetkey.authorization.protocol.authorization_response import ResponseType
from valetkey.authorization.protocol.claims import ClaimsRequest, claims_of_scope
from valetkey.authorization.protocol.interaction import (
    DENIED,
    LONGEST,
    AddFactor,
    Interaction,
    Refuse,
    Respond,
    ShowSignIn,
    ShowSignUp,
    Step,
)
from valetkey.authorization.protocol.logout import session_state
from valetkey.authorization.protocol.resource import RESOURCE, at, choose, issuable, plain
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.authorization.tokens.issue import (
    Granted,
    Issuing,
    TokenResponses,
    TokenSecrets,
    issue_access_token,
)
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret, to_base64url
from valetkey.kernel.url import origin
from valetkey.web.body import Form, read_parameters
from valetkey.web.exchange import Pairs, Request, Response, see_other


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

    authorization: AuthorizationRequest
    code: Secret | None = None
    granted: Granted | None = None
    identity: SignInRecord | None = None
    session_id: str = ""


Answer = Issued | ClientError | Step
"""The result of an authorization request; a Step means that the user must be asked again."""


async def answer(server: Server, pending: Pending, now: Instant) -> Answer:
    """Answer the request of `pending`, unless something it depends on has ended.

    Raises Refused for errors that must be shown to the user only.
    """
    secrets = FlowSecrets(server.random)
    try:
        outcome = await server.claims.supply(
            lambda: server.store.write(
                lambda tx: _answer(tx, server, pending, secrets, now), done_by=USUAL_ACTOR
            )
        )
    except Refused as refused:
        # Nothing was written: the request stays open, and the client receives the error.
        if refused.refusal.check not in {"claims.size", "claims.file", "resource.ended"}:
            raise
        return ClientError(pending.authorization, refused.refusal)
    if isinstance(outcome, Issued) and outcome.granted is not None:
        metrics.TOKENS.add(GrantTypeName.IMPLICIT.value, pending.client.type.value)
    return outcome


def _answer(
    tx: Transaction, server: Server, pending: Pending, secrets: FlowSecrets, now: Instant
) -> Answer:
    judged = judge_again(tx, server, pending, now)
    if isinstance(judged, ClientError):
        return judged
    authorization, step = judged.authorization, judged.step
    if isinstance(step, Refuse):
        check_unanswered(tx, judged)
        if step.refusal is DENIED:
            uid = None if pending.signed_in is None else pending.signed_in.user.uid
            tx.events.add(ConsentDenied(uid, authorization.client_id), now)
        return ClientError(authorization, step.refusal)
    if not isinstance(step, Respond):
        return step
    if refusal := redeem(tx, judged):
        return ClientError(authorization, refusal)
    consent_id = _consent(tx, judged, step, secrets)
    # A claim is given by a scope or by itself, and in both ways only where it was allowed.
    claims = authorization.claims.only(step.claims.union(claims_of_scope(step.scope)))
    client, signed_in, identity = judged.client, judged.signed_in, None
    if authorization.response_type.has_id_token:
        identity = SignInRecord(
            user=signed_in.user,
            client=client,
            auth_time=signed_in.session.auth_time,
            methods=signed_in.session.methods,
            sid=signed_in.session.id,
            nonce=authorization.nonce,
            claims=claims,
            scope=step.scope,
            # With another response type, the token endpoint and userinfo return these claims.
            with_scope_claims=authorization.response_type is ResponseType.ID_TOKEN,
        )
        identity = server.claims.of_identity(tx, identity)
    code = granted = None
    if authorization.response_type.has_code:
        code = _code(tx, judged, claims, consent_id, secrets)
    if authorization.response_type.has_token:
        granted = _grant(tx, judged, claims, secrets)
    # Last: users and sessions are locked before rate limits.
    note_sign_in(tx, client, now)
    session_id = signed_in.session.id if judged.is_openid else ""
    return Issued(authorization, code, granted, identity, session_id)


def _consent(tx: Transaction, judged: Judgement, step: Respond, secrets: FlowSecrets) -> str:
    """Return the id of the user's consent, "" for none; store it if the user was just asked."""
    before = None if judged.session is None else judged.session.consent
    if not step.user_was_asked:
        return "" if before is None else before.id
    uid, client, requested = judged.signed_in.user.uid, judged.client, judged.authorization
    consent = Consent(
        uid, client.id, step.scope, client.appearance, judged.now, step.claims, secrets.consent_id
    )
    return remember_consent(tx, before, consent, requested.scope, requested.single_claims)


def _code(
    tx: Transaction,
    judged: Judgement,
    claims: ClaimsRequest,
    consent_id: str,
    secrets: FlowSecrets,
) -> Secret:
    authorization, client, server = judged.authorization, judged.client, judged.server
    user, session, now = judged.signed_in.user, judged.signed_in.session, judged.now
    payload = CodePayload(
        uid=user.uid,
        scope=str(judged.scope),
        redirect_uri=authorization.returns.redirect_uri,
        redirect_uri_given=authorization.returns.redirect_uri_given,
        code_challenge=authorization.code_challenge,
        nonce=authorization.nonce,
        session_id=session.id,
        auth_time=session.auth_time,
        methods=session.methods,
        claims=claims.encode(),
        client_generation=client.generation,
        user_generation=user.generation,
        consent_id=consent_id,
        apis=generations(authorization.apis),
    )
    tx.vouchers.issue(
        Voucher(
            kind=VoucherKind.CODE,
            fingerprint=server.keyring.fingerprint_key.fingerprint(CODE, secrets.code.reveal()),
            client_id=client.id,
            grant_id=secrets.grant_id,
            payload=payload.encode(),
            expires_at=later(now, server.policy.authorization_code_lifetime),
        )
    )
    pkce = bool(authorization.code_challenge)
    tx.events.add(CodeIssued(user.uid, client.id, secrets.grant_id, pkce=pkce), now)
    return secrets.code


def _grant(
    tx: Transaction, judged: Judgement, claims: ClaimsRequest, secrets: FlowSecrets
) -> Granted:
    """Issue one short-lived access token, without a refresh token (RFC 6749 section 4.2)."""
    client, server, now = judged.client, judged.server, judged.now
    user, session = judged.signed_in.user, judged.signed_in.session
    api = choose((), issuable(judged.authorization.apis, judged.scope, server.apis.default))
    if isinstance(api, Refusal):
        # None of the allowed scopes is left at any of the APIs.
        raise Refused(api)
    scope, policy = at(api, judged.scope), server.policy
    lifetime = min(policy.lifetime_of(client, api), policy.implicit_token_lifetime)
    grant = Grant(
        id=secrets.front_grant_id,
        client_id=client.id,
        uid=user.uid,
        session_id=session.id if client.ends_with_session else "",
        scope=judged.scope,
        audience=api.identifier,
        grant_type=GrantTypeName.IMPLICIT.value,
        auth_time=session.auth_time,
        created_at=now,
        last_used_at=now,
        expires_at=later(now, lifetime),
        sid=session.id,
        methods=session.methods,
        claims=claims.encode(),
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
            draw=secrets.access,
            lifetime=lifetime,
            now=now,
            user=user,
            grant_id=grant.id,
            auth_time=grant.auth_time,
            ends_at=grant.expires_at,
        ),
        server.keyring.fingerprint_key,
    )
    issued = (granted.token_id, grant.grant_type, str(scope), api.identifier)
    tx.events.add(AccessTokenIssued(client.id, user.uid, grant.id, *issued), now)
    return granted


_INTERACTION = "interaction"
_NO_BODY = Form({})
# Checked one by one, so that the error can be reported to the client.
_OPAQUE = (*PARAMETERS, *UNSUPPORTED)
_MULTIPLE = (RESOURCE,)
_PAGES: Mapping[type[Step], str] = MappingProxyType(
    {ShowSignIn: SIGN_IN, ShowSignUp: SIGN_UP, AddFactor: REQUIRED_FACTOR}
)


class Authorize(Struct, frozen=True):
    """The authorization endpoint."""

    server: Server
    minter: TokenResponses

    async def get(self, request: Request) -> Response:
        """Answer a client's request, or redirect its user to the next page."""
        query = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        # A client's request has `client_id` (RFC 6749 section 4.1.1); in it the interaction is an
        # unknown parameter and ignored. Without `client_id` the other parameters are ignored.
        sealed = None if "client_id" in query.names else query.get(_INTERACTION)
        if sealed:
            interaction = await open_interaction(self.server, request, sealed)
        else:
            interaction = await begin(self.server, request, query, _NO_BODY)
        return await self._go_on(request, interaction)

    async def post(self, request: Request) -> Response:
        """Redirect a POST request (RFC 6749 section 3.1) to GET.

        Browsers withhold SameSite cookies from a cross-site form post, but send them with the GET.
        """
        query = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        body = read_parameters(request.body, opaque=_OPAQUE, multiple=_MULTIPLE)
        interaction = await begin(self.server, request, query, body)
        draft = await find_and_prove(self.server, interaction.parameters)
        url = decides_again(self.server, interaction)
        if len(url) > LONGEST:
            return self.server.back(draft.returns, _TOO_LONG, draft.client, request.at)
        return see_other(url)

    async def _go_on(self, request: Request, interaction: Interaction) -> Response:
        pending = await check_interaction(self.server, request, interaction)
        if not isinstance(pending.step, Respond | Refuse):
            return self._ask(request, pending, pending.step)
        if isinstance(pending.step, Refuse) and not pending.interaction.browser:
            # No page was shown: there is no interaction to redeem and no event to record.
            return self._refuse(request, pending, pending.step.refusal)
        if pending.authorization.response_type is not ResponseType.CODE:
            # Loaded before the transaction: without a key nothing is spent.
            await self.minter.keys.refresh(request.at)
            self.minter.keys.current(request.at)
        try:
            outcome = await answer(self.server, pending, request.at)
        except Refused as refused:
            if not pending.interaction.browser:
                raise
            begins = address(self.server, SIGN_IN, pending.interaction)
            raise Refused(replace(refused.refusal, leads_to=begins)) from None
        if isinstance(outcome, ClientError):
            pending = replace(pending, authorization=outcome.authorization)
            return self._refuse(request, pending, outcome.refusal)
        if isinstance(outcome, Issued):
            return await self._issued(request, pending.client, outcome)
        return self._ask(request, pending, outcome)

    def _ask(self, request: Request, pending: Pending, step: Step) -> Response:
        browser, headers = self.server.browser(request)
        # The default scope at the time of the request applies until the request is answered.
        scope = str(plain(pending.authorization.scope))
        interaction = replace(
            pending.interaction,
            parameters={**pending.interaction.parameters, "scope": scope},
            browser=self.server.cookies.browser_fingerprint(browser) or "",
            client_generation=pending.client.generation,
        )
        if isinstance(step, AddFactor) and step.signs_in_again:
            interaction = replace(interaction, signed_in="")
        url = address(self.server, _PAGES.get(type(step), CONSENT), interaction)
        if len(url) > LONGEST:
            return self._refuse(request, pending, _TOO_LONG)
        if not pending.interaction.browser:
            # Once, at the start: a choice of the user applies until the request is answered.
            requested = pending.interaction.parameters.get(UI_LOCALES)
            secure, languages = self.server.cookies.secure, self.server.brand.languages
            headers = (
                *headers,
                *requested_languages_cookie(requested, request, languages, secure=secure),
            )
        return see_other(url, *headers)

    def _refuse(self, request: Request, pending: Pending, refusal: Refusal) -> Response:
        returns = pending.authorization.returns
        return self.server.back(returns, refusal, pending.client, request.at)

    async def _issued(self, request: Request, client: Client, issued: Issued) -> Response:
        returns = issued.authorization.returns
        try:
            pairs = await self._pairs(request, client, issued)
        except Refused as refused:
            # The registration cannot be honoured: no key for its algorithm, for example.
            refusal = replace(refused.refusal, code=ErrorCode.SERVER_ERROR)
            return self.server.back(returns, refusal, client, request.at)
        return self.server.answer(returns, pairs, client)

    async def _pairs(self, request: Request, client: Client, issued: Issued) -> Pairs:
        pairs: list[tuple[str, str]] = []
        returns = issued.authorization.returns
        code = access_token = ""
        if issued.code is not None:
            code = issued.code.reveal()
            pairs.append(("code", code))
        if issued.granted is not None:
            response = await self.minter.response(issued.granted, request.at)
            access_token = str(response["access_token"])
            # Name and email address do not belong in an address bar.
            pairs += [(name, str(value)) for name, value in response.items() if name != "info"]
        if issued.identity is not None:
            id_token = await self.minter.id_tokens.mint(
                issued.identity,
                request.at,
                access_token=access_token,
                code=code,
                state=returns.state or "",
            )
            pairs.append(("id_token", id_token))
        if issued.session_id:
            state = self.server.cookies.browser_state(issued.session_id)
            salt = to_base64url(self.server.random(12))
            value = session_state(client.id, origin(returns.redirect_uri), state, salt)
            pairs.append(("session_state", value))
        return tuple(pairs)


_TOO_LONG = Refusal(
    ErrorCode.INVALID_REQUEST,
    "the request is too long; use a shorter state, claims or id_token_hint",
    "authorize.long",
    f"at most {LONGEST} characters when sealed",
    "more",
)
