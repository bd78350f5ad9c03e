"""RU: what changes, or is changed, between the request and the answer to it."""

from collections.abc import Sequence
from urllib.parse import urlencode, urljoin

import pytest

from tests.attacks.people.requests.desk import change_client, count, switch_client
from tests.attacks.people.told import back, consent_page, fetch, shown, signed_in, yes
from tests.support.live import CALLBACK, CHALLENGE, VERIFIER, LiveServers
from valetkey.testing.browser import Form, Page, UserAgent

_EVIL = "https://evil.test/cb"
_OTHER = "https://app.example/other"
_EVIL_CHALLENGE = "m1cOAHxp1s-Sf7wrlqTe2W0MaklrhJP7HZ1PGq0cBYk"
_PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
_TAMPERED = (
    ("redirect_uri", _EVIL),
    ("client_id", "web2"),
    ("scope", "write"),
    ("scope", "notes:read write"),
    ("scope", "client:write"),
    ("state", "evil"),
    ("code_challenge", _EVIL_CHALLENGE),
    ("code_challenge", ""),
    ("code_challenge_method", "plain"),
    ("response_type", "token"),
    ("response_mode", "fragment"),
    ("nonce", "evil"),
    ("resource", "https://evil.test"),
    ("prompt", "none"),
    ("uid", "1"),
    ("username", "mallory"),
    ("session", "evil"),
    ("interaction", "v1.evil"),
    ("next", _EVIL),
)


@pytest.fixture(scope="module")
def alice(world: LiveServers) -> UserAgent:
    """Alice's browser."""
    return signed_in(world)


def _form(page: Page, button: str = "allow") -> Form:
    return page.forms[next(candidate.form for candidate in page.buttons if candidate.id == button)]


def _pairs(page: Page) -> list[tuple[str, str]]:
    form = _form(page)
    boxes = [(name, value) for name, value, _ in form.boxes]
    return [*form.fields, *boxes, ("decision", "allow")]


def _send(
    world: LiveServers,
    person: UserAgent,
    page: Page,
    pairs: Sequence[tuple[str, str]],
    more: str = "",
) -> Page:
    """Submit these very pairs, and follow to where the code goes."""
    url = urljoin(page.url, _form(page).action) + more
    answer = fetch(person, "POST", url, urlencode(pairs), {"origin": world.auth})
    if answer.status != 303 or not answer.location.startswith("/"):
        return answer
    assert answer.location.startswith("/oauth/authorize?interaction=v1."), answer.location
    return fetch(person, "GET", urljoin(page.url, answer.location))


@pytest.mark.parametrize("tampered", _TAMPERED, ids="=".join)
def test_ru_35_tampered_consent_field_does_not_change_the_request(
    world: LiveServers, alice: UserAgent, tampered: tuple[str, str]
) -> None:
    page = consent_page(world, alice, "spa1", **_PKCE)
    answer = _send(world, alice, page, [*_pairs(page), tampered])
    code = yes(world, answer)
    granted = world.exchange(code, "spa1", code_verifier=VERIFIER)
    granted.ok()
    assert granted.json["scope"] == "notes:read"


def test_ru_35_tampered_fields_together_do_not_change_the_request(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice, "spa1", **_PKCE)
    everything = dict(_TAMPERED)
    del everything["scope"]
    code = yes(world, _send(world, alice, page, [*_pairs(page), *everything.items()]))
    world.exchange(code, "spa1", code_verifier=VERIFIER).ok()


def test_ru_35_consent_form_refuses_scopes_that_were_not_requested(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice)
    others = [pair for pair in _pairs(page) if pair[0] != "scope"]
    with world.nothing_changes():
        for scope in ("write", "client:write", "notes:read write", "", "NOTES:READ"):
            answer = _send(world, alice, page, [*others, ("scope", scope)])
            assert answer.status == 400
            assert answer.location == ""
    yes(world, _send(world, alice, page, _pairs(page)))


def test_ru_35_query_of_the_consent_form_does_not_change_the_request(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice)
    evil = urlencode({"redirect_uri": _EVIL, "client_id": "web2", "scope": "write"})
    with world.nothing_changes():
        sealed = page.url.partition("interaction=")[2]
        for more in ("&interaction=v1.evil", f"&interaction={sealed}", "&interaction"):
            shown(_send(world, alice, page, _pairs(page), more), 400, "invalid_request")
    code = yes(world, _send(world, alice, page, _pairs(page), f"&{evil}"))
    granted = world.exchange(code)
    granted.ok()
    assert granted.json["scope"] == "notes:read"


def test_ru_35_repeated_or_malformed_consent_fields_are_refused(
    world: LiveServers, alice: UserAgent
) -> None:
    page = consent_page(world, alice)
    csrf = dict(_form(page).fields)["csrf"]
    others = [pair for pair in _pairs(page) if pair[0] != "csrf"]
    with world.nothing_changes():
        for pairs in (
            [*_pairs(page), ("csrf", csrf)],
            [*_pairs(page), ("decision", "allow")],
            [*_pairs(page), ("decision", "deny")],
            [*_pairs(page), ("state", "a\r\nLocation: https://evil.test/")],
            [*_pairs(page), *((f"x{number}", "") for number in range(100))],
        ):
            shown(_send(world, alice, page, pairs), 400, "invalid_request")
        for token in ("", "x", csrf[:-1], csrf + "x", csrf.swapcase(), f" {csrf}", "null"):
            answer = _send(world, alice, page, [*others, ("csrf", token)])
            shown(answer, 403, "forbidden")
        shown(_send(world, alice, page, others), 403, "forbidden")


@pytest.mark.parametrize("decision", ["", "ALLOW", "yes", "true", "1", "allow ", "deny ", "none"])
def test_ru_35_decision_other_than_allow_or_deny_is_refused(
    world: LiveServers, alice: UserAgent, decision: str
) -> None:
    page = consent_page(world, alice)
    pairs = [pair for pair in _pairs(page) if pair[0] != "decision"]
    with world.nothing_changes():
        answer = _send(world, alice, page, [*pairs, ("decision", decision)])
        shown(answer, 400, "invalid_request")


def _removed(world: LiveServers, client_id: str) -> None:
    change_client(world, client_id, redirect_uris=(_OTHER,))


def _switched_off(world: LiveServers, client_id: str) -> None:
    switch_client(world, client_id, on=False)


@pytest.mark.parametrize("end", [_removed, _switched_off])
@pytest.mark.parametrize("when", ["signing in", "deciding", "denying", "decided"])
def test_ru_37_no_redirect_to_uri_or_client_removed_meanwhile(
    world: LiveServers, when: str, end: object
) -> None:
    client_id = f"flight-{when}-{getattr(end, '__name__', '')}".replace(" ", "-")
    world.client(client_id)
    person = signed_in(world)
    page = consent_page(world, person, client_id)
    url = urljoin(page.url, _form(page).action)
    decided = fetch(person, "POST", url, urlencode(_pairs(page)))
    assert decided.status == 303
    stranger = UserAgent(world.auth)
    sign_in_page = world.ask(stranger, client_id)
    (_removed if end is _removed else _switched_off)(world, client_id)
    codes = count(world, "vouchers", "kind = 'code'")
    if when == "signing in":
        page = stranger.sign_in(sign_in_page, "alice", "correct horse battery staple")
    elif when == "deciding":
        page = _send(world, person, page, _pairs(page))
    elif when == "denying":
        page = person.deny(page)
    else:
        page = fetch(person, "GET", urljoin(url, decided.location))
    shown(page, 400, "invalid_request")
    assert count(world, "vouchers", "kind = 'code'") == codes


def test_ru_37_prompt_none_does_not_redirect_to_removed_uri(world: LiveServers) -> None:
    world.client("silent1", redirect_uris=(CALLBACK, _OTHER))
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person, "silent1")))
    yes(world, world.ask(person, "silent1", prompt="none"))
    _removed(world, "silent1")
    with world.nothing_changes():
        for prompt in ("none", "", "login"):
            shown(world.ask(person, "silent1", prompt=prompt), 400, "invalid_request")
    yes(world, world.ask(person, "silent1", redirect_uri=_OTHER), to=_OTHER)


def test_ru_37_disabled_client_cannot_exchange_a_code_issued_before(
    world: LiveServers,
) -> None:
    world.client("dies1")
    code = world.code("dies1")
    _switched_off(world, "dies1")
    world.exchange(code, "dies1").refused(401, "invalid_client")
    switch_client(world, "dies1", on=True)
    person = signed_in(world)
    yes(world, person.allow(consent_page(world, person, "dies1")))


def test_ru_37_client_restricted_during_consent_gets_an_error_redirect(
    world: LiveServers,
) -> None:
    world.client("narrow1", scopes=("read", "notes:read"))
    person = signed_in(world)
    page = consent_page(world, person, "narrow1")
    change_client(world, "narrow1", scopes=("read",))
    back(world, _send(world, person, page, _pairs(page)), "invalid_scope")
    world.client("narrow2")
    page = consent_page(world, person, "narrow2")
    change_client(world, "narrow2", grant_types=("client_credentials",), redirect_uris=(CALLBACK,))
    back(world, _send(world, person, page, _pairs(page)), "unauthorized_client")
    world.client("narrow3")
    page = consent_page(world, person, "narrow3")
    change_client(world, "narrow3", requires_pkce=True)
    back(world, _send(world, person, page, _pairs(page)), "invalid_request")
