"""What happens next, as a table; and the sealed interaction."""

import json

import pytest

from tests.authorization.protocol.samples import IMPLICIT, NATIVE, NOW, PKCE, WEB, asked
from valetkey.authorization.endpoints.authorize.checks import next_step
from valetkey.authorization.model.client import ClientType
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.authorization_request import AuthorizationRequest
from valetkey.authorization.protocol.claims import Acr
from valetkey.authorization.protocol.interaction import (
    Ask,
    Interaction,
    InteractionState,
    Refuse,
    Respond,
    ShowSignIn,
    ShowSignUp,
    SignedInUser,
    Step,
    chosen_claims,
    chosen_places,
    chosen_scope,
    is_bound_to,
)
from valetkey.kernel.keyring import Sealer, SealingKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

BOTH = Scope.of("read", "notes:read")
ALLOWED = Consent(Uid(1), "web1", Scope.of("notes:read", "read", "write"), WEB.appearance, NOW)
PART = replace(ALLOWED, scope=Scope.of("read"))
OTHER_LOOKS = replace(ALLOWED, appearance="Another name\n\n\n")

NOBODY = InteractionState(WEB)
ALICE = InteractionState(WEB, SignedInUser("se_1", Instant(NOW - 100)))
ALICE_ALLOWED = InteractionState(WEB, SignedInUser("se_1", Instant(NOW - 100), ALLOWED))
HERE = replace(ALICE, signed_in_here=True)
HERE_ALLOWED = replace(ALICE_ALLOWED, signed_in_here=True)
TICKED = replace(ALICE, allowed=Scope.of("read"))
NATIVE_ALLOWED = replace(ALICE_ALLOWED, client=NATIVE)

LOOPBACK = {"redirect_uri": "http://127.0.0.1:7000/cb", **PKCE}
NATIVE_LOOPBACK = asked(NATIVE, **LOOPBACK)
PRIVATE = replace(NATIVE, redirect_uris=("com.example.app:/cb",))
CLAIMED = replace(NATIVE, redirect_uris=("https://app.example/cb",))
LOOPBACK_WEB = replace(WEB, redirect_uris=("http://127.0.0.1/cb",))
BROWSER = replace(LOOPBACK_WEB, type=ClientType.PUBLIC)
LOOPBACK_IMPLICIT = replace(IMPLICIT, redirect_uris=("http://127.0.0.1/cb",))

OPENID = replace(WEB, scope=Scope.of("openid", "email", "read", "notes:read"))
OPENID_ALLOWED = replace(
    ALICE_ALLOWED,
    client=OPENID,
    person=SignedInUser(
        "se_1", Instant(NOW - 100), replace(ALLOWED, scope=Scope.of("openid")), ("pwd",)
    ),
)
MEANT_OTHER = replace(OPENID_ALLOWED.person or SignedInUser("", NOW), is_meant=False)
OTHER = replace(OPENID_ALLOWED, person=MEANT_OTHER)
UNKNOWN_WAY = replace(OPENID_ALLOWED.person or SignedInUser("", NOW), methods=("otp",))
ACR = Acr.PASSWORD.value


def openid(**changed: str) -> AuthorizationRequest:
    return asked(OPENID, **{"scope": "openid", **changed})


def essential(acr: str) -> str:
    return json.dumps({"id_token": {"acr": {"essential": True, "value": acr}}})


MAIL = json.dumps({"userinfo": {"email": None}})
ALL = Respond(BOTH, user_was_asked=False)
ONLY_OPENID = Respond(Scope.of("openid"), user_was_asked=False)
TABLE: list[tuple[str, AuthorizationRequest, InteractionState, Step | ErrorCode]] = [
    ("nobody is signed in", asked(), NOBODY, ShowSignIn()),
    ("nobody, silently", asked(prompt="none"), NOBODY, ErrorCode.LOGIN_REQUIRED),
    ("signed in, never asked", asked(), ALICE, Ask(changed=False)),
    ("never asked, silently", asked(prompt="none"), ALICE, ErrorCode.CONSENT_REQUIRED),
    ("signed in, allowed before", asked(), ALICE_ALLOWED, ALL),
    ("the same, silently", asked(prompt="none"), ALICE_ALLOWED, ALL),
    (
        "allowed less before",
        asked(),
        replace(ALICE, person=SignedInUser("se_1", NOW, PART)),
        Ask(changed=False),
    ),
    (
        "the client looks different",
        asked(),
        replace(ALICE, person=SignedInUser("se_1", NOW, OTHER_LOOKS)),
        Ask(changed=True),
    ),
    (
        "looks different, silently",
        asked(prompt="none"),
        replace(ALICE, person=SignedInUser("se_1", NOW, OTHER_LOOKS)),
        ErrorCode.CONSENT_REQUIRED,
    ),
    ("prompt=consent asks again", asked(prompt="consent"), ALICE_ALLOWED, Ask(changed=False)),
    (
        "prompt=consent, decided",
        asked(prompt="consent"),
        TICKED,
        Respond(Scope.of("read"), user_was_asked=True),
    ),
    ("prompt=login", asked(prompt="login"), ALICE_ALLOWED, ShowSignIn()),
    ("prompt=login, signed in here", asked(prompt="login"), HERE_ALLOWED, ALL),
    ("prompt=login, then consent", asked(prompt="login"), HERE, Ask(changed=False)),
    ("prompt=select_account", asked(prompt="select_account"), ALICE_ALLOWED, ShowSignIn()),
    ("prompt=select_account, chosen", asked(prompt="select_account"), HERE_ALLOWED, ALL),
    ("prompt=create, nobody", asked(prompt="create"), NOBODY, ShowSignUp()),
    ("prompt=create", asked(prompt="create consent"), ALICE_ALLOWED, ShowSignUp()),
    ("prompt=create, created", asked(prompt="create"), HERE, Ask(changed=False)),
    ("a decision does not replace prompt=create", asked(prompt="create"), TICKED, ShowSignUp()),
    ("a decision does not replace prompt=login", asked(prompt="login"), TICKED, ShowSignIn()),
    ("young enough", asked(max_age="101"), ALICE_ALLOWED, ALL),
    ("too old", asked(max_age="100"), ALICE_ALLOWED, ShowSignIn()),
    (
        "too old, silently",
        asked(max_age="99", prompt="none"),
        ALICE_ALLOWED,
        ErrorCode.LOGIN_REQUIRED,
    ),
    ("max_age=0, signed in here", asked(max_age="0"), HERE_ALLOWED, ALL),
    ("some boxes ticked", asked(), TICKED, Respond(Scope.of("read"), user_was_asked=True)),
    (
        "ticked is never wider than asked",
        asked(scope="notes:read"),
        replace(ALICE, allowed=BOTH),
        Respond(Scope.of("notes:read"), user_was_asked=True),
    ),
    ("denied", asked(), replace(ALICE, denied=True), ErrorCode.ACCESS_DENIED),
    ("denied by nobody", asked(), replace(NOBODY, denied=True), ErrorCode.ACCESS_DENIED),
    (
        "a no after a yes is a no",
        asked(),
        replace(TICKED, denied=True),
        ErrorCode.ACCESS_DENIED,
    ),
    ("public, loopback: always asked", NATIVE_LOOPBACK, NATIVE_ALLOWED, Ask(changed=False)),
    (
        "public, loopback, silently",
        asked(NATIVE, prompt="none", **LOOPBACK),
        NATIVE_ALLOWED,
        ErrorCode.INTERACTION_REQUIRED,
    ),
    ("the person who is meant", openid(), OPENID_ALLOWED, ONLY_OPENID),
    ("another than is meant", openid(), OTHER, ShowSignIn()),
    ("another, silently", openid(prompt="none"), OTHER, ErrorCode.LOGIN_REQUIRED),
    (
        "another, who signed in here",
        openid(),
        replace(OTHER, signed_in_here=True),
        ErrorCode.LOGIN_REQUIRED,
    ),
    (
        "another, who even decided",
        openid(),
        replace(OTHER, allowed=BOTH),
        ShowSignIn(),
    ),
    ("a class of sign-in as had", openid(claims=essential(ACR)), OPENID_ALLOWED, ONLY_OPENID),
    (
        "a class that nobody has",
        openid(claims=essential("gold")),
        NOBODY,
        ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS,
    ),
    (
        "a class that this sign-in has not",
        openid(claims=essential(ACR)),
        replace(OPENID_ALLOWED, person=UNKNOWN_WAY),
        ShowSignIn(),
    ),
    (
        "a class that this sign-in has not, silently",
        openid(claims=essential(ACR), prompt="none"),
        replace(OPENID_ALLOWED, person=UNKNOWN_WAY),
        ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS,
    ),
    (
        "a class that even the next sign-in had not",
        openid(claims=essential(ACR)),
        replace(OPENID_ALLOWED, person=UNKNOWN_WAY, signed_in_here=True),
        ErrorCode.UNMET_AUTHENTICATION_REQUIREMENTS,
    ),
    ("a claim never allowed", openid(claims=MAIL), OPENID_ALLOWED, Ask(changed=False)),
    (
        "a claim never allowed, silently",
        openid(claims=MAIL, prompt="none"),
        OPENID_ALLOWED,
        ErrorCode.CONSENT_REQUIRED,
    ),
    (
        "a claim ticked, and one that nobody asked for",
        openid(claims=MAIL),
        replace(OPENID_ALLOWED, allowed=Scope.of("openid"), claims=frozenset({"email", "address"})),
        Respond(Scope.of("openid"), user_was_asked=True, claims=frozenset({"email"})),
    ),
    (
        "public, loopback, decided",
        NATIVE_LOOPBACK,
        replace(NATIVE_ALLOWED, allowed=BOTH),
        Respond(BOTH, user_was_asked=True),
    ),
    (
        "public, private scheme: always asked",
        asked(PRIVATE, redirect_uri="com.example.app:/cb", **PKCE),
        replace(NATIVE_ALLOWED, client=PRIVATE),
        Ask(changed=False),
    ),
    (
        "public, claimed https: remembered",
        asked(CLAIMED, **PKCE),
        replace(NATIVE_ALLOWED, client=CLAIMED),
        ALL,
    ),
    (
        "confidential, loopback: remembered",
        asked(LOOPBACK_WEB, redirect_uri="http://127.0.0.1/cb"),
        replace(ALICE_ALLOWED, client=LOOPBACK_WEB),
        ALL,
    ),
    (
        "implicit, loopback: always asked",
        asked(LOOPBACK_IMPLICIT, response_type="token", redirect_uri="http://127.0.0.1/cb"),
        replace(ALICE_ALLOWED, client=LOOPBACK_IMPLICIT),
        Ask(changed=False),
    ),
    (
        "page on loopback, silently, at a server elsewhere",
        asked(BROWSER, redirect_uri="http://127.0.0.1/cb", prompt="none", **PKCE),
        replace(ALICE_ALLOWED, client=BROWSER),
        ErrorCode.INTERACTION_REQUIRED,
    ),
    (
        "page on loopback, silently, in development",
        asked(BROWSER, redirect_uri="http://127.0.0.1/cb", prompt="none", **PKCE),
        replace(ALICE_ALLOWED, client=BROWSER, in_development=True),
        ALL,
    ),
    (
        "page on loopback in development: asked where it may be",
        asked(BROWSER, redirect_uri="http://127.0.0.1/cb", **PKCE),
        replace(ALICE_ALLOWED, client=BROWSER, in_development=True),
        Ask(changed=False),
    ),
    (
        "program on loopback, silently, in development",
        asked(NATIVE, **LOOPBACK, prompt="none"),
        replace(NATIVE_ALLOWED, in_development=True),
        ErrorCode.INTERACTION_REQUIRED,
    ),
]


def _appearing(state: InteractionState) -> InteractionState:
    """Consent as given to this very client, unless the row is about another look."""
    person = state.person
    if person is None or person.consent is None or person.consent is OTHER_LOOKS:
        return state
    consent = replace(person.consent, appearance=state.client.appearance)
    return replace(state, person=replace(person, consent=consent))


@pytest.mark.parametrize(
    ("request_", "known", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_next_step_follows_from_the_request_and_the_session(
    request_: AuthorizationRequest, known: InteractionState, expected: Step | ErrorCode
) -> None:
    step = next_step(request_, _appearing(known), NOW)
    if isinstance(expected, ErrorCode):
        assert isinstance(step, Refuse)
        assert step.refusal.code is expected
        return
    assert step == expected


def test_chosen_places_refer_to_requested_scopes_only() -> None:
    request = asked(scope="read write notes:read")
    places = chosen_places(request, Scope.of("notes:read", "read", "admin"))
    assert places == (0, 2)
    assert chosen_scope(request, places) == Scope.of("read", "notes:read")
    assert chosen_scope(request, (7, -1)) == Scope()


def test_single_claims_follow_the_scope_and_openid_is_always_chosen() -> None:
    claims = json.dumps({"userinfo": {"name": None, "email": None, "address": None}})
    request = openid(scope="read openid email", claims=claims)
    assert request.single_claims == ("address", "name")
    places = chosen_places(request, Scope.of("read"), ("name", "email", "phone_number"))
    assert places == (0, 1, 4)
    assert chosen_scope(request, places) == Scope.of("read", "openid")
    assert chosen_claims(request, places) == {"name"}
    assert chosen_claims(request, (0, 1, 2, 7, -1)) == frozenset()


SEALER = Sealer((SealingKey(1, b"k" * 32),))
BEGUN = Interaction("in_1", {"state": "\0\U0001f600"}, "print", NOW)


def test_sealed_interaction_is_unchanged_when_opened() -> None:
    done = replace(BEGUN, signed_in="se_1", decided="se_1", allowed=(0, 2), denied=True)
    for interaction in (BEGUN, done):
        sealed = interaction.seal(SEALER, SYSTEM.random)
        assert Interaction.open(sealed, SEALER) == interaction


def test_forged_or_changed_interaction_is_refused() -> None:
    sealed = BEGUN.seal(SEALER, SYSTEM.random)
    other = Sealer((SealingKey(1, b"x" * 32),))
    elsewhere = SEALER.seal(b"\x80", "another context", SYSTEM.random)
    for text in ("", "v1.", sealed[:-1], sealed + "A", sealed.swapcase(), "\0", elsewhere):
        assert Interaction.open(text, SEALER) is None
    assert Interaction.open(sealed, other) is None


def test_interaction_expires_after_fifteen_minutes() -> None:
    assert BEGUN.is_live(Instant(NOW + 899))
    assert not BEGUN.is_live(Instant(NOW + 900))


def test_an_interaction_belongs_to_the_browser_it_began_in() -> None:
    assert is_bound_to(BEGUN, Fingerprint("print"))
    assert not is_bound_to(BEGUN, Fingerprint("other"))
    assert not is_bound_to(BEGUN, None)
    assert not is_bound_to(replace(BEGUN, browser=""), None)
