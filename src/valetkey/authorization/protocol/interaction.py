"""The interaction: the state of an authorization request while the user signs in and consents.

It is not stored. It is sealed into the address of our pages, bound to the browser it began in, and
holds the request and what the user has done so far. One pure function decides the next step every
time.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    Prompt,
)
from valetkey.authorization.protocol.claims import OPENID, Acr, acrs_of, claims_of_scope
from valetkey.authorization.protocol.resource import covers
from valetkey.authorization.protocol.response_type import ResponseType
from valetkey.kernel.moment import Instant, days, is_live, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.scope import Scope
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Fingerprint

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
    the client, or one of the APIs, requires.
    """

    session_id: str
    auth_time: Instant
    consent: Consent | None = None
    methods: tuple[str, ...] = ()
    is_meant: bool = True
    is_admitted: bool = True


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


class SignIn(Struct, frozen=True):
    """Show the sign-in page."""


class SignUp(Struct, frozen=True):
    """Show the sign-up page."""


class Ask(Struct, frozen=True):
    """Show the consent page. `changed` says that the client changed since the last consent."""

    changed: bool


class Respond(Struct, frozen=True):
    """Grant the client what it requested, within `scope` and `claims`.

    `claims` are individual claims that no scope includes; `asked` says whether the user was asked.
    """

    scope: Scope
    asked: bool
    claims: frozenset[str] = frozenset()


class Refuse(Struct, frozen=True):
    """Return an error to the client."""

    refusal: Refusal


Step = SignIn | SignUp | Ask | Respond | Refuse


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


def next_step(request: AuthorizationRequest, known: InteractionState, now: Instant) -> Step:
    """Return the next step of this request."""
    if known.denied:
        return Refuse(DENIED)
    person, needed = known.person, request.needed_acrs
    if needed and not set(needed).intersection(Acr):
        return Refuse(_UNMET)
    if person is None:
        return _begin(request) if request.may_interact else Refuse(_LOGIN_REQUIRED)
    if problem := _sign_in_problem(request, known, person, now):
        # A user who signed in for this request cannot do more than that.
        ask = request.may_interact and not known.signed_in_here
        return _begin(request) if ask else Refuse(problem)
    return _after_sign_in(request, known, person) if person.is_admitted else Refuse(_NOT_ADMITTED)


def _begin(request: AuthorizationRequest) -> Step:
    return SignUp() if Prompt.CREATE in request.prompt else SignIn()


def _after_sign_in(
    request: AuthorizationRequest, known: InteractionState, person: SignedInUser
) -> Step:
    if known.allowed is not None:
        claims = known.claims.intersection(request.single_claims)
        return Respond(known.allowed & request.scope, asked=True, claims=claims)
    changed = person.consent is not None and person.consent.appearance != known.client.appearance
    if changed or Prompt.CONSENT in request.prompt or not _covers(person.consent, request):
        return Ask(changed) if request.may_interact else Refuse(_CONSENT_REQUIRED)
    if not identity_is_assured(request, known):
        if request.may_interact:
            return Ask(changed)
        if not _may_renew_in_development(request, known):
            return Refuse(_INTERACTION_REQUIRED)
    return Respond(request.scope, asked=False, claims=frozenset(request.single_claims))


def _sign_in_problem(
    request: AuthorizationRequest, known: InteractionState, person: SignedInUser, now: Instant
) -> Refusal | None:
    """Return why this sign-in does not satisfy the request; None if it does."""
    if not person.is_meant:
        return _SOMEBODY_ELSE
    if request.needed_acrs and not set(request.needed_acrs).intersection(acrs_of(person.methods)):
        return _UNMET
    if known.signed_in_here or not request.wants_fresh_sign_in(person.auth_time, now):
        return None
    return _LOGIN_REQUIRED


def _covers(consent: Consent | None, request: AuthorizationRequest) -> bool:
    if consent is None or not covers(consent.scope, request.scope):
        return False
    single = request.single_claims
    return not single or consent.claims.union(claims_of_scope(consent.scope)).issuperset(single)


def identity_is_assured(request: AuthorizationRequest, known: InteractionState) -> bool:
    """Return whether an automatic response can only reach the client that was given consent.

    A web URL is under its owner's control, and a code is useless without the secret of a
    confidential client. A private-use scheme or loopback port can be taken by any program, so
    consent is requested every time there (RFC 8252 section 8.6, RFC 6749 section 10.2).
    """
    if request.returns.redirect_uri.startswith("https://"):
        return True
    return request.response_type is ResponseType.CODE and not known.client.is_public


def _may_renew_in_development(request: AuthorizationRequest, known: InteractionState) -> bool:
    """Return whether a page on loopback may use `prompt=none`: the server is on loopback too."""
    at, client = request.returns.redirect_uri, known.client
    if not known.in_development or client.is_native:
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
    return tuple(place for place, chosen in enumerate(here) if chosen)


def digest(request: AuthorizationRequest) -> bytes:
    """Return a digest of the names of everything that the request asks a user for, in order.

    It keeps an address short: a request may ask for hundreds of scopes with long names.
    """
    asked = f"{request.scope}\n{' '.join(request.single_claims)}"
    return hashlib.sha256(asked.encode()).digest()[:_DIGEST_BYTES]


def chosen_scope(request: AuthorizationRequest, places: tuple[int, ...]) -> Scope:
    """Return the part of the request's scope at these positions."""
    return Scope(tuple(name for place, name in enumerate(request.scope) if place in places))


def chosen_claims(request: AuthorizationRequest, places: tuple[int, ...]) -> frozenset[str]:
    """Return the individual claims at these positions."""
    behind = len(request.scope.names)
    named = enumerate(request.single_claims, behind)
    return frozenset(name for place, name in named if place in places)


def is_bound_to(interaction: Interaction, browser: Fingerprint | None) -> bool:
    """Return whether the interaction began in the browser with this fingerprint."""
    return browser is not None and interaction.browser == browser


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
_CONSENT_REQUIRED = Refusal(
    ErrorCode.CONSENT_REQUIRED,
    "the user must be asked for consent, and the request has prompt=none",
    "interaction.consent_required",
)
