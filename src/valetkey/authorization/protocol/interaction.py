"""The interaction: the part of an authorization request that needs a person.

Nothing of it is stored. It travels sealed in the address of our own pages, bound to the browser it
began in, and says what was asked and what the person did so far; what comes next is decided anew
at every step by one pure function.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from valetkey.authorization.model.consent import Consent
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import (
    AuthorizationRequest,
    Prompt,
)
from valetkey.authorization.protocol.claims import OPENID, Acr, acrs_of, claims_of_scope
from valetkey.authorization.protocol.response_type import ResponseType
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.scope import Scope
from valetkey.kernel.seal import Sealer
from valetkey.kernel.secret import Fingerprint

LIFETIME = minutes(15)
"""How long a person may take."""

LONGEST = 7_000
"""Characters of a sealed interaction just begun; with what is added later it fits in an address."""

_CONTEXT = "interaction"


@dataclass(frozen=True, slots=True)
class Interaction:
    """What was asked, by which browser, and what its person did so far.

    `parameters` are the request as it came; they are judged again at every step. `browser` is ""
    until a browser picked it up. `signed_in` and `decided` are ids of sessions: whose person signed
    in for this very request, and whose decided to allow what stands at the places in `allowed`.
    """

    id: str
    parameters: Mapping[str, str] = field(repr=False)
    browser: str
    started_at: Instant
    signed_in: str = ""
    decided: str = ""
    allowed: tuple[int, ...] = ()
    denied: bool = False
    client_generation: int = 0

    def is_live(self, now: Instant) -> bool:
        """Whether the person may still act."""
        return self.expires_at > now

    @property
    def expires_at(self) -> Instant:
        """When it is too late."""
        return later(self.started_at, LIFETIME)

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """As it travels in an address: characters that need no encoding."""
        return sealer.seal(msgspec.msgpack.encode(self), _CONTEXT, random)

    @staticmethod
    def open(sealed: str, sealer: Sealer) -> "Interaction | None":
        """What `seal` gave; None for anything else."""
        plain = sealer.open(sealed, _CONTEXT)
        if plain is None:
            return None
        try:
            return msgspec.msgpack.decode(plain, type=Interaction)
        except msgspec.MsgspecError:
            # Sealed by us all the same: by a version whose interactions had another shape.
            return None


@dataclass(frozen=True, slots=True)
class Person:
    """Who is signed in: which session, since when, and what they allowed this client before.

    `methods` is how they signed in. `is_meant` is false of whoever the request does not want: it
    names a person by `id_token_hint` or by a `sub` in `claims`, and this is another.
    """

    session_id: str
    auth_time: Instant
    consent: Consent | None = None
    methods: tuple[str, ...] = ()
    is_meant: bool = True


@dataclass(frozen=True, slots=True)
class Known:
    """Every fact that decides what comes next; the defaults say that nothing happened yet.

    `signed_in_here` is true of a person who signed in for this very request; `allowed` is the scope
    this person just ticked, None while they have not decided, `claims` the single claims.
    """

    client: Client
    person: Person | None = None
    signed_in_here: bool = False
    allowed: Scope | None = None
    claims: frozenset[str] = frozenset()
    denied: bool = False


@dataclass(frozen=True, slots=True)
class SignIn:
    """Ask who it is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for consent. `changed` says that the client looks different from last time."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Respond:
    """Give the client what it asked for, as far as `scope` and `claims` go.

    `claims` are single ones that no scope brings; `asked` says that a person was.
    """

    scope: Scope
    asked: bool
    claims: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the client no."""

    refusal: Refusal


Step = SignIn | Ask | Respond | Refuse


def what_is_known(
    interaction: Interaction, request: AuthorizationRequest, client: Client, person: Person | None
) -> Known:
    """What the interaction says of the person who is signed in now, and of nobody else."""
    if person is None:
        return Known(client, denied=interaction.denied)
    decided = interaction.decided == person.session_id
    return Known(
        client,
        person,
        signed_in_here=interaction.signed_in == person.session_id,
        allowed=chosen_scope(request, interaction.allowed) if decided else None,
        claims=chosen_claims(request, interaction.allowed) if decided else frozenset(),
        denied=interaction.denied,
    )


def next_step(request: AuthorizationRequest, known: Known, now: Instant) -> Step:
    """What happens next with this request."""
    if known.denied:
        return Refuse(DENIED)
    person, needed = known.person, request.needed_acrs
    if needed and not set(needed).intersection(Acr):
        return Refuse(_UNMET)
    if person is None:
        return SignIn() if request.may_interact else Refuse(_LOGIN_REQUIRED)
    if problem := _sign_in_problem(request, known, person, now):
        # Whoever signed in for this request did what can be done.
        ask = request.may_interact and not known.signed_in_here
        return SignIn() if ask else Refuse(problem)
    if known.allowed is not None:
        claims = known.claims.intersection(request.single_claims)
        return Respond(known.allowed & request.scope, asked=True, claims=claims)
    changed = person.consent is not None and person.consent.appearance != known.client.appearance
    if changed or Prompt.CONSENT in request.prompt or not _covers(person.consent, request):
        return Ask(changed) if request.may_interact else Refuse(_CONSENT_REQUIRED)
    if not identity_is_assured(request, known):
        return Ask(changed) if request.may_interact else Refuse(_INTERACTION_REQUIRED)
    return Respond(request.scope, asked=False, claims=frozenset(request.single_claims))


def _sign_in_problem(
    request: AuthorizationRequest, known: Known, person: Person, now: Instant
) -> Refusal | None:
    """Why this sign-in will not do for this request; None where it does."""
    if not person.is_meant:
        return _SOMEBODY_ELSE
    if request.needed_acrs and not set(request.needed_acrs).intersection(acrs_of(person.methods)):
        return _UNMET
    if known.signed_in_here or not request.wants_fresh_sign_in(person.auth_time, now):
        return None
    return _LOGIN_REQUIRED


def _covers(consent: Consent | None, request: AuthorizationRequest) -> bool:
    if consent is None or not request.scope <= consent.scope:
        return False
    single = request.single_claims
    return not single or consent.claims.union(claims_of_scope(consent.scope)).issuperset(single)


def identity_is_assured(request: AuthorizationRequest, known: Known) -> bool:
    """Whether an answer given without asking can only reach the client that was once allowed.

    A web address belongs to who controls it, and a code is worth nothing without the secret of a
    confidential client. A private scheme or a loopback port belongs to whichever program on the
    device takes it, so there the person is asked every time (RFC 8252 section 8.6, RFC 6749
    section 10.2).
    """
    if request.returns.redirect_uri.startswith("https://"):
        return True
    return request.response_type is ResponseType.CODE and not known.client.is_public


def chosen_places(
    request: AuthorizationRequest, ticked: Scope, claims: Collection[str] = ()
) -> tuple[int, ...]:
    """The places in the request of what was ticked; what was not asked for has none.

    The single claims stand behind the scope. `openid` needs no tick: without it the app would not
    know whose answer it got (OpenID Connect Core section 3.1.2.1).
    """
    here = [name in ticked or name == OPENID for name in request.scope]
    here += [name in claims for name in request.single_claims]
    return tuple(place for place, chosen in enumerate(here) if chosen)


def chosen_scope(request: AuthorizationRequest, places: tuple[int, ...]) -> Scope:
    """What stands at these places of the request's scope."""
    return Scope(tuple(name for place, name in enumerate(request.scope) if place in places))


def chosen_claims(request: AuthorizationRequest, places: tuple[int, ...]) -> frozenset[str]:
    """The single claims at these places."""
    behind = len(request.scope.names)
    named = enumerate(request.single_claims, behind)
    return frozenset(name for place, name in named if place in places)


def is_bound_to(interaction: Interaction, browser: Fingerprint | None) -> bool:
    """Whether it began in the browser whose cookie has this fingerprint."""
    return browser is not None and interaction.browser == browser


DENIED = Refusal(
    ErrorCode.ACCESS_DENIED, "the person said no", "interaction.denied", "consent", "a no"
)
_LOGIN_REQUIRED = Refusal(
    ErrorCode.LOGIN_REQUIRED,
    "nobody is signed in, or must sign in again, and prompt=none forbids to ask",
    "interaction.login_required",
)
_SOMEBODY_ELSE = Refusal(
    ErrorCode.LOGIN_REQUIRED,
    "the person who is signed in is not the one that the request names",
    "interaction.somebody_else",
    "the person of id_token_hint or claims",
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
    "the person must be asked for consent, and prompt=none forbids to ask",
    "interaction.consent_required",
)
