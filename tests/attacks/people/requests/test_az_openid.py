"""AZ: the same promises where an ID token, a fragment or a form brings the answer."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import pytest

from tests.attacks.people.requests.desk import count
from tests.attacks.people.told import fetch, shown, signed_in
from tests.attacks.raw import HARDENED, only, request, say
from tests.support.live import CALLBACK, CODE_GRANT, PASSWORD, SCOPES, LiveServers, raw_jwt
from valetkey.authorization.model.user import Uid
from valetkey.kernel.moment import days, minutes
from valetkey.testing.browser import Page, UserAgent

_FRESH = iter(range(10**6))
_STATES = (
    "x",
    '"><script>evil</script>',
    "\t",
    "\U0001f511",
    "&code=evil",
    "%00",
    "\u2028\ufeff\x85",
)


@pytest.fixture(scope="module", autouse=True)
def _apps(world: LiveServers) -> None:
    for client_id in ("oidc1", "oidc2"):
        world.client(
            client_id,
            grant_types=(*CODE_GRANT, "implicit"),
            scopes=("openid", "email", *SCOPES),
        )


def _ask(world: LiveServers, person: UserAgent, client_id: str = "oidc1", **changes: str) -> Page:
    good = {"scope": "openid", "nonce": f"n-{next(_FRESH)}", "response_type": "code id_token"}
    return world.ask(person, client_id, **{**good, **changes})


def _told(page: Page) -> dict[str, str]:
    """What the client is told, however it comes, and what is owed with it."""
    for name in HARDENED:
        assert len(page.headers.get_all(name, [])) == 1, name
    assert page.headers["cache-control"] == "no-store"
    if page.location:
        address, _, rest = page.headers["location"].partition("#")
        pairs = parse_qsl(rest or urlsplit(address).query, keep_blank_values=True)
        assert address.partition("?")[0] == CALLBACK
        assert not (rest and urlsplit(address).query)
    else:
        (form,) = page.forms
        assert (form.action, form.method) == (CALLBACK, "post")
        assert "form-action https://app.example;" in page.headers["content-security-policy"]
        assert page.status == 200
        pairs = form.fields
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def _yes(world: LiveServers, person: UserAgent, page: Page) -> dict[str, str]:
    """The answer after whatever is asked on the way."""
    ids = {button.id for button in page.buttons}
    if "sign-in" in ids:
        page = person.sign_in(page, "alice", PASSWORD)
        ids = {button.id for button in page.buttons}
    parameters = _told(person.allow(page) if "allow" in ids else page)
    assert "error" not in parameters, parameters
    assert parameters["iss"] == world.auth
    return parameters


def _no(world: LiveServers, page: Page, error: str, *, state: str | None = "xyz") -> None:
    parameters = _told(page)
    assert parameters.get("error") == error, parameters
    assert parameters.get("state") == state
    assert parameters["iss"] == world.auth
    assert not {"code", "id_token", "access_token"} & set(parameters)


def _claims(id_token: str) -> Mapping[str, object]:
    payload = id_token.split(".")[1]
    claims: Mapping[str, object] = json.loads(urlsafe_b64decode(payload + "=="))
    return claims


def _asks_who(page: Page) -> bool:
    return any(button.id == "sign-in" for button in page.buttons)


@pytest.fixture(scope="module")
def alice(world: LiveServers, _apps: None) -> UserAgent:
    person = signed_in(world)
    for client_id in ("oidc1", "oidc2"):
        _yes(world, person, _ask(world, person, client_id))
    return person


@pytest.mark.parametrize("mode", ["fragment", "form_post"])
@pytest.mark.parametrize("state", _STATES, ids=ascii)
def test_az_05_state_is_returned_unchanged(
    world: LiveServers, alice: UserAgent, state: str, mode: str
) -> None:
    parameters = _yes(world, alice, _ask(world, alice, state=state, response_mode=mode))
    assert parameters["state"] == state
    page = _ask(world, alice, state=state, response_mode=mode, scope="admin")
    _no(world, page, "invalid_scope", state=state)
    assert "<script>evil" not in page.body


@pytest.mark.parametrize("state", ["\0", "a\nb", "a\r\nSet-Cookie: session=evil", "x" * 4_097])
def test_az_05_state_that_form_post_would_alter_is_refused(
    world: LiveServers, alice: UserAgent, state: str
) -> None:
    with world.nothing_changes():
        page = _ask(world, alice, state=state, response_mode="form_post")
        _no(world, page, "invalid_request", state=None)
        assert "evil" not in str(page.headers)


@pytest.mark.parametrize("mode", ["query", "fragment", "form_post"])
def test_az_09_prompt_none_returns_login_or_consent_required(world: LiveServers, mode: str) -> None:
    person = UserAgent(world.auth)
    parameters = {"prompt": "none", "response_type": "code", "response_mode": mode}
    with world.nothing_changes():
        _no(world, _ask(world, person, **parameters), "login_required")
        _no(world, _ask(world, person, **{**parameters, "prompt": "none login"}), "invalid_request")
    mallory = signed_in(world, "mallory")
    with world.nothing_changes():
        _no(world, _ask(world, mallory, **parameters), "consent_required")


@pytest.mark.parametrize(
    "said", [{"prompt": "login"}, {"max_age": "0"}, {"prompt": "login consent"}], ids=str
)
def test_az_09_prompt_login_and_max_age_0_require_sign_in_and_renew_auth_time(
    world: LiveServers, said: dict[str, str]
) -> None:
    person = signed_in(world)
    before = _claims(_yes(world, person, _ask(world, person))["id_token"])
    world.servers.clock.forward(minutes(1))
    silent = _claims(_yes(world, person, _ask(world, person, prompt="none"))["id_token"])
    assert silent["auth_time"] == before["auth_time"]
    page = _ask(world, person, **said)
    assert _asks_who(page)
    # The address of the next page is no way around it.
    again = person.open(page.url.replace("/oauth/sign-in", "/oauth/consent"))
    assert _asks_who(again)
    after = _claims(_yes(world, person, page)["id_token"])
    assert int(str(after["auth_time"])) >= int(str(before["auth_time"])) + 60
    assert (after["sid"], after["sub"]) == (before["sid"], before["sub"])


def test_az_11_id_token_hint_of_another_user_requires_sign_in(
    world: LiveServers, alice: UserAgent
) -> None:
    hint = _yes(world, alice, _ask(world, alice))["id_token"]
    _yes(world, alice, _ask(world, alice, id_token_hint=hint, prompt="none"))
    mallory = signed_in(world, "mallory")
    page = mallory.allow(_ask(world, mallory, prompt="consent"))
    assert "code" in _told(page)
    stranger = UserAgent(world.auth)
    with world.nothing_changes():
        for person in (mallory, stranger):
            page = _ask(world, person, id_token_hint=hint, prompt="none")
            _no(world, page, "login_required")
            assert _asks_who(_ask(world, person, id_token_hint=hint))


def test_az_11_expired_id_token_hint_is_accepted(world: LiveServers) -> None:
    person = signed_in(world)
    hint = _yes(world, person, _ask(world, person))["id_token"]
    world.servers.clock.forward(days(1))
    page = _ask(world, person, id_token_hint=hint)
    assert _asks_who(page)
    _yes(world, person, page)
    _yes(world, person, _ask(world, person, id_token_hint=hint, prompt="none"))


def test_az_11_invalid_id_token_hints_are_refused(world: LiveServers, alice: UserAgent) -> None:
    good = _yes(world, alice, _ask(world, alice))["id_token"]
    others = _yes(world, alice, _ask(world, alice, "oidc2"))["id_token"]
    claims = _claims(good)
    header, payload, signature = good.split(".")
    hints = {
        "another client's": others,
        "alg none": raw_jwt({"alg": "none", "typ": "JWT"}, claims),
        "an empty signature": f"{header}.{payload}.",
        "another issuer": raw_jwt({"alg": "ES256"}, {**claims, "iss": "https://evil.test"}, b"x"),
        "HS256 with our public key": raw_jwt({"alg": "HS256", "typ": "JWT"}, claims, b"x" * 32),
        "another payload": f"{header}.{payload[:-2]}AA.{signature}",
        "no token": "evil",
        "dots": "." * 4_000,
        "long": "x" * 6_001,
    }
    with world.nothing_changes():
        for name, hint in hints.items():
            for prompt in ("none", "login"):
                page = _ask(world, alice, id_token_hint=hint, prompt=prompt)
                assert _told(page).get("error") == "invalid_request", name
        query = urlencode({"client_id": "oidc1", "id_token_hint": "x" * 1_048_576})
        reply = only(say(world.auth, request(world.auth, "GET", f"/oauth/authorize?{query}")))
        assert reply.status == 414


@pytest.mark.parametrize("response_type", ["id_token", "id_token token", "code id_token"])
def test_az_13_missing_long_or_used_nonce_is_refused(
    world: LiveServers, alice: UserAgent, response_type: str
) -> None:
    ask = partial(_ask, world, alice, response_type=response_type)
    with world.nothing_changes():
        for nonce in ("", "x" * 4_096, "a\0b"):
            _no(world, ask(nonce=nonce), "invalid_request")
    nonce = f"{response_type:64}"
    parameters = _yes(world, alice, ask(nonce=nonce))
    assert _claims(parameters["id_token"])["nonce"] == nonce
    with world.nothing_changes():
        _no(world, ask(nonce=nonce), "invalid_request")


def test_az_17_requested_claim_needs_consent_once_and_is_not_sent_unrequested(
    world: LiveServers, alice: UserAgent
) -> None:
    claims = json.dumps({"id_token": {"email": {"essential": True}}})
    with world.nothing_changes():
        _no(world, _ask(world, alice, claims=claims, prompt="none"), "consent_required")
    page = _ask(world, alice, claims=claims)
    assert "know your email address" in page.text
    without = _told(alice.allow(page, only=["openid"]))
    assert "email" not in _claims(without["id_token"])
    with_it = _yes(world, alice, _ask(world, alice, claims=claims))
    assert _claims(with_it["id_token"])["email"] == "alice@example.com"
    _yes(world, alice, _ask(world, alice, claims=claims, prompt="none"))
    plain = _yes(world, alice, _ask(world, alice, prompt="none"))
    assert "email" not in _claims(plain["id_token"])


@pytest.mark.parametrize("mode", ["fragment", "form_post"])
def test_az_19_interaction_is_refused_in_another_browser(world: LiveServers, mode: str) -> None:
    person = signed_in(world)
    page = _ask(world, person, response_mode=mode, prompt="consent")
    mallory = signed_in(world, "mallory")
    with world.nothing_changes():
        for thief in (mallory, UserAgent(world.auth)):
            for path in ("consent", "authorize", "sign-in"):
                url = page.url.replace("/oauth/consent", f"/oauth/{path}")
                shown(fetch(thief, "GET", url), 403, "forbidden")
            form = next(
                candidate
                for candidate in page.forms
                if candidate.boxes or len(candidate.fields) == 1
            )
            body = urlencode([*form.fields, ("decision", "allow")])
            answer = fetch(
                thief, "POST", urljoin(page.url, form.action), body, {"origin": world.auth}
            )
            shown(answer, 403, "forbidden")
    _yes(world, person, page)


def test_az_18_parallel_consents_of_one_hybrid_request_succeed_once(
    world: LiveServers, alice: UserAgent
) -> None:
    page = _ask(world, alice, response_type="code id_token token", prompt="consent")
    tokens, codes = world.events("access_token.issued"), world.events("code.issued")
    grants = count(world, "grants")
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(alice.allow, [page] * 64))
    won = [answer for answer in answers if answer.location]
    assert len(won) == 1
    assert {"code", "id_token", "access_token"} <= set(_told(won[0]))
    for answer in answers:
        if not answer.location:
            shown(answer, 400, "invalid_request")
    assert world.events("access_token.issued") == tokens + 1
    assert world.events("code.issued") == codes + 1
    assert count(world, "grants") == grants + 1


def test_az_20_another_user_signing_in_gets_no_data_of_the_first(world: LiveServers) -> None:
    person = signed_in(world)
    before = _claims(_yes(world, person, _ask(world, person))["id_token"])
    page = person.sign_in(_ask(world, person, prompt="login"), "mallory", PASSWORD)
    parameters = _told(page if not page.buttons else person.allow(page))
    after = _claims(parameters["id_token"])
    assert after["sub"] != before["sub"]
    assert after["sid"] != before["sid"]
    uid = Uid(int(str(before["sub"])))
    now = world.servers.clock.now()
    live = world.servers.write(lambda tx: tx.sessions.live_of(uid, now))
    assert before["sid"] not in {session.id for session in live}
