"""The interaction: the state of an authorization request while the user signs in and consents.

It is not stored. It is sealed into the address of our pages, bound to the browser it began in, and
holds the request and what the user has done so far. Each check of it returns the next step, or None
if it passes; their order is in `endpoints/authorize/checks.py`.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.protocol.authorization_request import AuthorizationRequest, Prompt
from valetkey.authorization.protocol.authorization_response import ResponseType
from valetkey.authorization.protocol.claims import OPENID, Acr, acrs_of, claims_of_scope
from valetkey.authorization.protocol.resource import covers
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, days, is_live, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint
from valetkey.kernel.text import translatable

LIFETIME = minutes(15)
"""How long the user may take."""

BEGINS_AGAIN = days(1)
"""How long after its start an expired interaction can begin again, as a new one."""

LONGEST = 7_000
"""Maximum length of a newly sealed interaction; leaves room for what is added later."""

_CONTEXT = "interaction"
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Interaction:
    """The request, the browser it began in, and what the user has done so far.

    `parameters` are those of the request; they are checked again at every step. `browser` is ""
    until a browser has opened it. `signed_in` and `decided` are session ids: of the user who signed
    in for this request, and of the one who allowed what `allowed` lists by position among what the
    digest `shown` is of.
    """

    id: str
    parameters: Mapping[str, str] = field(repr=False)
    browser: str
    started_at: Instant
    signed_in: str = ""
    decided: str = ""
    allowed: tuple[int, ...] = ()
    shown: bytes = b""
    denied: bool = False
    client_generation: int = 0

    def is_live(self, now: Instant) -> bool:
        """Return whether the interaction has not expired."""
        return is_live(self.started_at, self.expires_at, now)

    @property
    def expires_at(self) -> Instant:
        """The time when it expires."""
        return later(self.started_at, LIFETIME)

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Encrypt for a URL, with only characters that need no encoding."""
        return sealer.seal(msgspec.msgpack.encode(self), _CONTEXT, random)

    @staticmethod
    def open(sealed: str, sealer: Sealer) -> "Interaction | None":
        """Decrypt what `seal` returned; None for anything else."""
        plain = sealer.open(sealed, _CONTEXT)
        if plain is None:
            return None
        try:
            return msgspec.msgpack.decode(plain, type=Interaction)
        except msgspec.MsgspecError:
            # Sealed by a version of this server with other fields.
            return None


class SignedInUser(Struct, frozen=True):
    """The signed-in user: their session, when they signed in, and what they allowed before.

    `methods` is how they signed in. `is_meant` is False if the request names another user by
    `id_token_hint` or by a `sub` in `claims`, `is_admitted` if they are in none of the groups that
    the client, or one of the APIs, requires. With `must_add_factor` they add a second factor before
    anything else.
    """

    session_id: str
    auth_time: Instant
    consent: Consent | None = None
    methods: tuple[str, ...] = ()
    is_meant: bool = True
    is_admitted: bool = True
    must_add_factor: bool = False


class InteractionState(Struct, frozen=True):
    """The facts that determine the next step; the defaults mean that nothing has happened yet.

    `signed_in_here` is True if the user signed in for this request. `allowed` is the scope the user
    just selected, None before the decision; `claims` the individual claims. `in_development` is
    True on a server that only programs of its own machine reach.
    """

    client: Client
    person: SignedInUser | None = None
    signed_in_here: bool = False
    allowed: Scope | None = None
    claims: frozenset[str] = frozenset()
    denied: bool = False
    in_development: bool = False


class ShowSignIn(Struct, frozen=True):
    """Show the sign-in page."""


class ShowSignUp(Struct, frozen=True):
    """Show the sign-up page."""


class AddFactor(Struct, frozen=True):
    """Show the page on which a required second factor is added.

    `signs_in_again` says that the request needs more than this sign-in proved.
    """

    signs_in_again: bool = False


class Ask(Struct, frozen=True):
    """Show the consent page. `changed` says that the client changed since the last consent."""

    changed: bool


class Respond(Struct, frozen=True):
    """Grant the client what it requested, within `scope` and `claims`.

    `claims` are individual claims that no scope includes; `user_was_asked` is whether the user saw
    the consent page.
    """

    scope: Scope
    user_was_asked: bool
    claims: frozenset[str] = frozenset()


class Refuse(Struct, frozen=True):
    """Return an error to the client."""

    refusal: Refusal


Step = ShowSignIn | ShowSignUp | AddFactor | Ask | Respond | Refuse


def state_of(
    interaction: Interaction,
    request: AuthorizationRequest,
    client: Client,
    person: SignedInUser | None,
    *,
    issuer: str,
) -> InteractionState:
    """Return what the interaction records about the currently signed-in user."""
    # Settings allow a server http only on loopback.
    local = issuer.startswith("http://")
    if person is None:
        return InteractionState(client, denied=interaction.denied, in_development=local)
    # Positions count only among the permissions that were there when the user decided.
    decided = interaction.decided == person.session_id and interaction.shown == digest(request)
    return InteractionState(
        client,
        person,
        signed_in_here=interaction.signed_in == person.session_id,
        allowed=chosen_scope(request, interaction.allowed) if decided else None,
        claims=chosen_claims(request, interaction.allowed) if decided else frozenset(),
        denied=interaction.denied,
        in_development=local,
    )


class Progress(Struct, frozen=True):
    """A valid request, the state of its interaction, and the time at which a check reads them."""

    request: AuthorizationRequest
    state: InteractionState
    now: Instant

    @property
    def user(self) -> SignedInUser:
        """The signed-in user. LookupError before `check_signed_in` has passed."""
        if self.state.person is None:
            raise LookupError
        return self.state.person

    @property
    def client_changed(self) -> bool:
        """Whether the client looks different from when the user consented."""
        consent = self.user.consent
        return consent is not None and consent.appearance != self.state.client.appearance

    def sign_in_or(self, refusal: Refusal) -> Step:
        """Return the page for another sign-in, or the refusal where that cannot help."""
        # A user who signed in for this request cannot do more than that.
        if not self.request.may_interact or self.state.signed_in_here:
            return Refuse(refusal)
        return ShowSignUp() if Prompt.CREATE in self.request.prompt else ShowSignIn()

    def ask_or(self, refusal: Refusal) -> Step:
        """Return the consent page, or the refusal with `prompt=none`."""
        return Ask(self.client_changed) if self.request.may_interact else Refuse(refusal)


def check_denial(at: Progress) -> Step | None:
    """Refuse what the user denied (RFC 6749 section 4.1.2.1)."""
    return Refuse(DENIED) if at.state.denied else None


def check_known_acr(at: Progress) -> Step | None:
    """Refuse an essential `acr` that no sign-in has (Core section 5.5.1.1)."""
    needed = at.request.needed_acrs
    return Refuse(_UNMET) if needed and not set(needed).intersection(Acr) else None


def check_signed_in(at: Progress) -> Step | None:
    """Require a signed-in user (Core section 3.1.2.3)."""
    return at.sign_in_or(_LOGIN_REQUIRED) if at.state.person is None else None


def check_named_user(at: Progress) -> Step | None:
    """Require the user that the request names, if it names one (Core 3.1.2.1 and 5.5.1)."""
    return None if at.user.is_meant else at.sign_in_or(_SOMEBODY_ELSE)


def check_acr(at: Progress) -> Step | None:
    """Require a sign-in of an essential `acr` (Core section 5.5.1.1)."""
    needed = at.request.needed_acrs
    if not needed or set(needed).intersection(acrs_of(at.user.methods)):
        return None
    # With a second factor the next sign-in may reach the acr that this one does not.
    if at.user.must_add_factor and at.request.may_interact and at.state.signed_in_here:
        return AddFactor(signs_in_again=True)
    return at.sign_in_or(_UNMET)


def check_sign_in_age(at: Progress) -> Step | None:
    """Require a sign-in as recent as `prompt` and `max_age` demand (Core section 3.1.2.1)."""
    if at.state.signed_in_here or not at.request.wants_fresh_sign_in(at.user.auth_time, at.now):
        return None
    return at.sign_in_or(_LOGIN_REQUIRED)


def check_required_factor(at: Progress) -> Step | None:
    """Require a second factor of whom an administrator requires one (Core section 3.1.2.6)."""
    if not at.user.must_add_factor:
        return None
    return AddFactor() if at.request.may_interact else Refuse(_FACTOR_REQUIRED)


def check_groups(at: Progress) -> Step | None:
    """Require membership in the groups of client and APIs (RFC 6749 section 4.1.2.1)."""
    return None if at.user.is_admitted else Refuse(_NOT_ADMITTED)


def check_decision(at: Progress) -> Step | None:
    """Respond with what the user has just allowed (RFC 6749 section 3.3)."""
    if at.state.allowed is None:
        return None
    claims = at.state.claims.intersection(at.request.single_claims)
    return Respond(at.state.allowed & at.request.scope, user_was_asked=True, claims=claims)


def check_consent(at: Progress) -> Step | None:
    """Require a consent to all of the request, for the client as it is (Core section 3.1.2.4)."""
    asks = Prompt.CONSENT in at.request.prompt
    if not asks and not at.client_changed and _covers(at.user.consent, at.request):
        return None
    return at.ask_or(_CONSENT_REQUIRED)


def check_assured_identity(at: Progress) -> Step | None:
    """Ask again where another program could receive the response (RFC 8252 section 8.6)."""
    if identity_is_assured(at.request, at.state):
        return None
    if not at.request.may_interact and _may_renew_in_development(at.request, at.state):
        return None
    return at.ask_or(_INTERACTION_REQUIRED)


def respond(at: Progress) -> Step:
    """Respond with all of the request, to which the user consented before."""
    claims = frozenset(at.request.single_claims)
    return Respond(at.request.scope, user_was_asked=False, claims=claims)


def _covers(consent: Consent | None, request: AuthorizationRequest) -> bool:
    if consent is None or not covers(consent.scope, request.scope):
        return False
    single = request.single_claims
    return not single or consent.claims.union(claims_of_scope(consent.scope)).issuperset(single)


def identity_is_assured(request: AuthorizationRequest, state: InteractionState) -> bool:
    """Return whether an automatic response can only reach the client that was given consent.

    A web URL is under its owner's control, and a code is useless without the secret of a
    confidential client. A private-use scheme or loopback port can be taken by any program, so
    consent is requested every time there (RFC 8252 section 8.6, RFC 6749 section 10.2).
    """
    if request.returns.redirect_uri.startswith("https://"):
        return True
    return request.response_type is ResponseType.CODE and not state.client.is_public


def _may_renew_in_development(request: AuthorizationRequest, state: InteractionState) -> bool:
    """Return whether a page on loopback may use `prompt=none`: the server is on loopback too."""
    at, client = request.returns.redirect_uri, state.client
    if not state.in_development or client.is_native:
        return False
    # Not on another port of loopback, where any program can wait.
    return at.startswith("http://") and client.registered_redirect_uri(at, any_port=False)


def chosen_places(
    request: AuthorizationRequest, ticked: Scope, claims: Collection[str] = ()
) -> tuple[int, ...]:
    """Return the positions of the selected permissions; anything not requested is ignored.

    Individual claims follow the scope. `openid` needs no selection: without it the app could not
    tell whose response it received (OpenID Connect Core section 3.1.2.1).
    """
    here = [name in ticked or name == OPENID for name in request.scope]
    here += [name in claims for name in request.single_claims]
    return tuple(position for position, chosen in enumerate(here) if chosen)


def digest(request: AuthorizationRequest) -> bytes:
    """Return a digest of the names of everything that the request asks a user for, in order.

    It keeps an address short: a request may ask for hundreds of scopes with long names.
    """
    content = f"{request.scope}\n{' '.join(request.single_claims)}"
    return hashlib.sha256(content.encode()).digest()[:_DIGEST_BYTES]


def chosen_scope(request: AuthorizationRequest, places: tuple[int, ...]) -> Scope:
    """Return the part of the request's scope at these positions."""
    return Scope(tuple(name for position, name in enumerate(request.scope) if position in places))


def chosen_claims(request: AuthorizationRequest, places: tuple[int, ...]) -> frozenset[str]:
    """Return the individual claims at these positions."""
    behind = len(request.scope.names)
    named = enumerate(request.single_claims, behind)
    return frozenset(name for position, name in named if position in places)


def is_bound_to(interaction: Interaction, browser: Fingerprint | None) -> bool:
    """Return whether the interaction began in the browser with this fingerprint."""
    return browser is not None and interaction.browser == browser


def check_browser(interaction: Interaction, browser: Fingerprint | None, now: Instant) -> None:
    """Require the browser in which it began, or none so far (RFC 9700 section 4.7)."""
    if interaction.browser and not is_bound_to(interaction, browser):
        raise Refused(_OTHER_BROWSER)


def check_age(interaction: Interaction, browser: Fingerprint | None, now: Instant) -> None:
    """Require an interaction that is live, or can begin again (RFC 9700 section 4.7)."""
    if not is_live(interaction.started_at, later(interaction.started_at, BEGINS_AGAIN), now):
        raise Refused(_EXPIRED)


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
DENIED = Refusal(
    ErrorCode.ACCESS_DENIED, "the user denied the request", "interaction.denied", "consent", "a no"
)
_NOT_ADMITTED = Refusal(
    ErrorCode.ACCESS_DENIED,
    "the user is in none of the groups that may use this app or API",
    "interaction.groups",
    "a member of one of the required groups",
    "a member of none",
)
_LOGIN_REQUIRED = Refusal(
    ErrorCode.LOGIN_REQUIRED,
    "the user is not signed in or must sign in again, and the request has prompt=none",
    "interaction.login_required",
)
_SOMEBODY_ELSE = Refusal(
    ErrorCode.LOGIN_REQUIRED,
    "the signed-in user is not the one that the request names",
    "interaction.somebody_else",
    "the user of id_token_hint or claims",
    "another person",
)
_UNMET = Refusal(
    ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS,
    "claims insists on an acr that this sign-in does not have",
    "interaction.acr",
    "an acr that claims names",
    "another acr",
)
_INTERACTION_REQUIRED = Refusal(
    ErrorCode.INTERACTION_REQUIRED,
    "an app at such an address is confirmed each time, and prompt=none forbids to ask",
    "interaction.interaction_required",
)
_FACTOR_REQUIRED = Refusal(
    ErrorCode.INTERACTION_REQUIRED,
    "the user must add a second factor first, and the request has prompt=none",
    "interaction.factor_required",
)
_CONSENT_REQUIRED = Refusal(
    ErrorCode.CONSENT_REQUIRED,
    "the user must be asked for consent, and the request has prompt=none",
    "interaction.consent_required",
)
