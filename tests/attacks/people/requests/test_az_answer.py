"""AZ: what comes back to the client: its state byte for byte, the issuer, one code, one nonce."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode, urljoin

import pytest
import requests

from tests.attacks.people.requests.desk import change_client, count
from tests.attacks.people.told import back, consent_page, fetch, shown, signed_in, yes
from tests.attacks.raw import only, request, say
from tests.support.live import CALLBACK, CHALLENGE, PASSWORD, VERIFIER, LiveServers, secret_of
from valetkey.testing.browser import Page, UserAgent

_GOOD = {"response_type": "code", "client_id": "web1", "redirect_uri": CALLBACK}
_STATES = {
    "one byte": b"x",
    "space": b" ",
    "plus": b"a+b c%20d%2Bd",
    "markup": b"\"><script>alert('evil')</script>",
    "NUL": b"\0",
    "controls": bytes(range(1, 32)) + b"\x7f",
    "CR LF": b"a\r\nLocation: https://evil.test/\r\n\r\n<html>",
    "header": b"x\nSet-Cookie: session=evil",
    "another code": b"xyz&code=evil&iss=https://evil.test#code=evil",
    "delimiters": b"!#$&'()*,/:;=?@[]",
    "unreserved": b"-._~",
    "percent": b"%%00%zz%",
    "backslash": b"\\\\evil.test\\",
    "template": b"{{7*7}}${7*7}<%= 7 %>",
    "emoji": "\U0001f511\U0001f468\u200d\U0001f469".encode(),
    "direction": "\u202etxet\u2066".encode(),
    "composed and not": "é e\u0301 \ufb01".encode(),
    "controls of Latin-1": "\x80\x85\x9f".encode(),
    "line separators": "\u2028\u2029\ufeff".encode(),
    "not a character": "\uffff\U0010ffff".encode(),
    "2 KiB": b"x" * 2_048,
    "4 KiB": b"x" * 4_096,
    "2 KiB of percent signs": b"%" * 2_048,
    "2 KiB of emoji": "\U0001f511".encode() * 512,
}


@pytest.fixture(scope="module")
def alice(world: LiveServers) -> UserAgent:
    """Alice, who allowed web1 before and is not asked again."""
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person)))
    return person


def _raw(
    world: LiveServers, person: UserAgent, method: str, target: str, body: str = ""
) -> dict[str, str]:
    cookie = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    headers = [f"Cookie: {cookie}"]
    sent = request(world.auth, method, target, headers=headers, body=body.encode())
    reply = only(say(world.auth, sent, method=method))
    assert reply.status == 303, reply
    assert reply.body == b""
    assert "evil" not in [name for name in reply.headers if name != "location"]
    assert "set-cookie" not in reply.headers
    return dict(reply.headers)


def _state_in(location: str) -> bytes:
    """The state as any client would read it, and proof that there is one."""
    assert re.fullmatch(r"[\x21-\x7e]+#", location), location
    query = location.removesuffix("#").partition("?")[2]
    states = [pair[6:] for pair in query.split("&") if pair.startswith("state=")]
    assert len(states) == 1, location
    assert "#" not in query
    assert "evil" not in [pair.partition("=")[2] for pair in query.split("&")]
    return unquote_to_bytes(states[0])


@pytest.mark.parametrize("state", _STATES.values(), ids=_STATES)
def test_az_05_state_is_returned_byte_for_byte(
    world: LiveServers, alice: UserAgent, state: bytes
) -> None:
    query = f"{urlencode(_GOOD)}&state={quote_from_bytes(state, safe='')}"
    for more in ("&scope=notes:read", "&scope=nothing"):
        location = _raw(world, alice, "GET", f"/oauth/authorize?{query}{more}")["location"]
        assert location.startswith(f"{CALLBACK}?")
        assert _state_in(location) == state
        posted = _raw(world, alice, "POST", "/oauth/authorize", query + more)["location"]
        if posted.startswith("/oauth/authorize?interaction=v1."):
            posted = _raw(world, alice, "GET", posted)["location"]
        assert _state_in(posted) == state


@pytest.mark.parametrize("state", _STATES.values(), ids=_STATES)
def test_az_05_consent_keeps_the_state(world: LiveServers, alice: UserAgent, state: bytes) -> None:
    page = consent_page(world, alice, state=state.decode())
    for answer in (alice.allow(page), alice.deny(consent_page(world, alice, state=state.decode()))):
        assert _state_in(answer.headers["location"]) == state


def test_az_05_state_of_any_single_character_is_returned(
    world: LiveServers, alice: UserAgent
) -> None:
    for number in (*range(0x80), 0xE9, 0x2603):
        text = chr(number).encode()
        query = f"{urlencode(_GOOD)}&scope=nothing&state={quote_from_bytes(text, safe='')}"
        answer = fetch(alice, "GET", f"{world.auth}/oauth/authorize?{query}")
        assert _state_in(answer.headers["location"]) == text


@pytest.mark.parametrize("size", [4_097, 6_000])
def test_az_05_too_long_state_is_refused_without_returning_it(
    world: LiveServers, alice: UserAgent, size: int
) -> None:
    with world.nothing_changes():
        back(world, world.ask(alice, state="x" * size), "invalid_request", state=None)


def test_az_05_state_of_64_kibibytes_is_refused(world: LiveServers, alice: UserAgent) -> None:
    with world.nothing_changes():
        target = f"/oauth/authorize?{urlencode(_GOOD)}&state={'x' * 65_536}"
        reply = only(say(world.auth, request(world.auth, "GET", target)))
        assert reply.status == 414
        room = 65_536 - len(urlencode(_GOOD)) - len("&state=")
        form = f"{urlencode(_GOOD)}&state={'x' * room}"
        page = fetch(alice, "POST", f"{world.auth}/oauth/authorize", form)
        back(world, page, "invalid_request", state=None)


def test_az_05_empty_state_is_not_returned(world: LiveServers, alice: UserAgent) -> None:
    yes(world, world.ask(alice, state=""), state=None)
    url = f"{world.auth}/oauth/authorize?{urlencode(_GOOD)}&state="
    assert "state" not in fetch(alice, "GET", url).location


def test_az_07_response_names_its_issuer_against_mix_up_attacks(world: LiveServers) -> None:
    # The attacker's metadata name our authorization endpoint and the attacker's token endpoint.
    page = world.allow("spa1", code_challenge=CHALLENGE, code_challenge_method="S256")
    assert page.redirect_parameters["iss"] == world.auth != "https://as.evil.test"
    # A client that does not look sends the code there; it is worth nothing to the attacker.
    code = page.redirect_parameters["code"]
    for client_id in ("web2", "svc1"):
        stolen = world.token(client_id, grant_type="authorization_code", code=code)
        assert stolen.status == 400
    world.exchange(code, "spa1", code_verifier="x" * 43).refused(400, "invalid_grant")


def test_az_08_every_response_has_the_issuer_of_the_metadata(
    world: LiveServers, alice: UserAgent
) -> None:
    yes(world, world.ask(alice))
    back(world, world.ask(alice, response_type="x"), "unsupported_response_type")
    back(world, world.ask(UserAgent(world.auth), prompt="none"), "login_required")
    back(world, alice.deny(consent_page(world, alice)), "access_denied")
    refused = world.ask(alice, response_type="token").location
    assert refused.startswith(f"{CALLBACK}#error=unauthorized_client&")
    assert f"&iss={quote_from_bytes(world.auth.encode(), safe='')}" in refused
    url = f"{world.auth}/.well-known/oauth-authorization-server"
    metadata = requests.get(url, timeout=60).json()
    assert metadata["issuer"] == world.auth
    assert metadata["authorization_response_iss_parameter_supported"] is True


def test_az_13_used_nonce_is_refused_for_the_same_client(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice, nonce="n" * 64)
    # Coming again before it is over is no second use.
    page = alice.open(page.url)
    consent_page(world, alice, nonce="n" * 64)
    yes(world, alice.allow(page))
    with world.nothing_changes():
        for _ in range(3):
            back(world, world.ask(alice, nonce="n" * 64), "invalid_request")
    yes(world, world.ask(alice, nonce="m" * 64))
    yes(world, alice.allow(consent_page(world, alice, "web2", nonce="n" * 64)))


def test_az_13_parallel_requests_with_one_nonce_yield_one_code(
    world: LiveServers, alice: UserAgent
) -> None:
    url = f"{world.auth}/oauth/authorize?{urlencode(_GOOD)}&scope=notes:read&nonce=parallel"
    with ThreadPoolExecutor(16) as pool:
        urls = [f"{url}&state=s{number}" for number in range(32)]
        answers = list(pool.map(partial(fetch, alice, "GET"), urls))
    assert sum("code=" in answer.location for answer in answers) == 1
    assert sum("error=invalid_request" in answer.location for answer in answers) == 31


def test_az_16_consent_cannot_be_given_by_a_get_request(world: LiveServers) -> None:
    person = signed_in(world, "mallory")
    codes = count(world, "vouchers", "kind = 'code'")
    more = {"decision": "allow", "allow": "1", "approve": "1", "consent": "yes", "auto": "true"}
    page = world.ask(person, **more)
    csrf = dict(page.forms[1].fields)["csrf"]
    for path in ("consent", "authorize", "sign-in"):
        address = page.url.replace("/oauth/consent", f"/oauth/{path}")
        query = urlencode({**more, "csrf": csrf, "_method": "POST"})
        answer = fetch(
            person, "GET", f"{address}&{query}", None, {"x-http-method-override": "POST"}
        )
        assert answer.status in {200, 303}
        assert "code=" not in answer.location
    assert count(world, "vouchers", "kind = 'code'") == codes
    assert count(world, "consents", "client_id = 'web1'") == 1  # alice's


def _submit(world: LiveServers, person: UserAgent, page: Page) -> Page:
    form = page.forms[next(button.form for button in page.buttons if button.id == "allow")]
    pairs = [*form.fields, *((name, value) for name, value, _ in form.boxes)]
    body = urlencode([*pairs, ("decision", "allow")])
    answer = fetch(person, "POST", urljoin(page.url, form.action), body, {"origin": world.auth})
    if not answer.location.startswith("/"):
        return answer
    return fetch(person, "GET", urljoin(page.url, answer.location))


def test_az_18_parallel_allow_submissions_issue_exactly_one_code(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice)
    codes, events = count(world, "vouchers", "kind = 'code'"), world.events("code.issued")
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(partial(_submit, world, alice), [page] * 64))
    won = [answer for answer in answers if answer.location]
    assert len(won) == 1
    yes(world, won[0])
    for answer in answers:
        if not answer.location:
            shown(answer, 400, "invalid_request")
    assert count(world, "vouchers", "kind = 'code'") == codes + 1
    assert world.events("code.issued") == events + 1
    shown(_submit(world, alice, page), 400, "invalid_request")


def test_az_18_parallel_allow_or_deny_has_one_result(world: LiveServers, alice: UserAgent) -> None:
    for _ in range(4):
        page = consent_page(world, alice)
        codes = count(world, "vouchers", "kind = 'code'")
        with ThreadPoolExecutor(8) as pool:
            yes_or_no = (partial(_submit, world, alice), alice.deny)
            sent = [pool.submit(yes_or_no[number % 2], page) for number in range(8)]
            pages = [future.result() for future in sent]
            answers = [answer for answer in pages if answer.location]
        assert len(answers) == 1
        issued = "code=" in answers[0].location
        assert count(world, "vouchers", "kind = 'code'") == codes + issued


def test_az_18_allow_after_deny_is_refused(world: LiveServers, alice: UserAgent) -> None:
    page = consent_page(world, alice)
    back(world, alice.deny(page), "access_denied")
    with world.nothing_changes():
        shown(_submit(world, alice, page), 400, "invalid_request")


@pytest.mark.parametrize(
    ("field", "value", "notice"),
    [
        ("name", "Another Name", "its name"),
        ("logo_uri", "https://app.example/logo.png", "its logo"),
        ("policy_uri", "https://app.example/policy", "its terms"),
        ("tos_uri", "https://app.example/terms", "its terms"),
    ],
)
def test_az_17_changed_client_needs_consent_again(
    world: LiveServers, field: str, value: str, notice: str
) -> None:
    world.client(f"changes-{field}")
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person, f"changes-{field}")))
    yes(world, world.ask(person, f"changes-{field}"))
    change_client(world, f"changes-{field}", **{field: value})
    back(world, world.ask(person, f"changes-{field}", prompt="none"), "consent_required")
    page = world.ask(person, f"changes-{field}")
    assert notice in page.text
    yes(world, person.allow(page))
    yes(world, world.ask(person, f"changes-{field}", prompt="none"))


def test_az_17_scope_beyond_earlier_consent_requires_new_consent(world: LiveServers) -> None:
    world.client("wider1")
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person, "wider1")))
    for scope in ("notes:read write", "write", "account:read"):
        assert world.ask(person, "wider1", scope=scope).status == 200
    yes(world, world.ask(person, "wider1"))


def test_az_17_native_app_on_loopback_requires_consent_every_time(world: LiveServers) -> None:
    person = signed_in(world)
    parameters = {
        "redirect_uri": "http://127.0.0.1:8123/cb",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
    }
    for _ in range(2):
        page = consent_page(world, person, "nat1", prompt="", **parameters)
        yes(world, person.allow(page), to=parameters["redirect_uri"])
    silent = world.ask(person, "nat1", prompt="none", **parameters)
    back(world, silent, "interaction_required", to=parameters["redirect_uri"])


def test_az_23_code_redirects_end_with_an_empty_fragment(
    world: LiveServers, alice: UserAgent
) -> None:
    # A browser hands its fragment on to a redirect that has none.
    for page in (world.ask(alice), world.ask(alice, scope="nothing")):
        assert page.location.count("#") == 1
        assert page.headers["location"].endswith("#")


def test_az_23_code_is_only_in_the_location_header(world: LiveServers, alice: UserAgent) -> None:
    page = world.ask(alice)
    code = yes(world, page)
    others = [value for name, value in page.headers.items() if name != "location"]
    assert page.body == ""
    assert not any(code in value for value in others)
    world.exchange(code).ok()
    assert PASSWORD not in page.location
    assert VERIFIER not in page.location
    assert secret_of("web1") not in page.location
