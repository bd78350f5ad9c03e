"""AZ: the sealed interaction in the address: stolen, forged, old, and thousands of it."""

import asyncio
from http.client import HTTPConnection
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit

import pytest

from tests.attacks.people.requests.desk import count, switch_user
from tests.attacks.people.told import consent_page, fetch, shown, signed_in, yes
from tests.support.live import CALLBACK, PASSWORD, LiveServers
from tests.support.wait import CEILING
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.protocol.interaction import Interaction
from valetkey.kernel.keyring import Keyring, Sealer
from valetkey.kernel.moment import hours, minutes, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.scopes import SCOPES
from valetkey.testing.browser import Page, UserAgent

_PAGES = ("authorize", "sign-in", "consent")


def _sealed(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["interaction"][0]


def _at(world: LiveServers, path: str, sealed: str) -> str:
    return f"{world.auth}/oauth/{path}?interaction={quote(sealed, safe='')}"


def _pairs(page: Page, button: str = "allow") -> list[tuple[str, str]]:
    form = page.forms[next(candidate.form for candidate in page.buttons if candidate.id == button)]
    boxes = [(name, value) for name, value, _ in form.boxes]
    return [*form.fields, *boxes, ("decision", "allow")]


def _decided(world: LiveServers, person: UserAgent, page: Page) -> str:
    """The address that a yes leads to, not yet opened."""
    form = page.forms[next(button.form for button in page.buttons if button.id == "allow")]
    body, url = urlencode(_pairs(page)), urljoin(page.url, form.action)
    answer = fetch(person, "POST", url, body, {"origin": world.auth})
    assert answer.location.startswith("/oauth/authorize?interaction=v1."), answer.location
    return urljoin(page.url, answer.location)


def _sealer(world: LiveServers) -> Sealer:
    """The server's own, to make what nobody else could."""
    foundation = build_foundation(world.servers.settings, world.servers.runtime, SCOPES)
    asyncio.run(foundation.store.engine.close())
    return foundation.keyring.sealer


def _forbidden(world: LiveServers, person: UserAgent, page: Page, sealed: str) -> None:
    """Nothing can be done with it in this browser."""
    for path in _PAGES:
        shown(fetch(person, "GET", _at(world, path, sealed)), 403, "forbidden")
    for path in (*_PAGES[1:], "switch-account"):
        token = urlencode({"csrf": dict(_pairs(page))["csrf"]})
        for body in (f"{token}&decision=allow", f"{token}&decision=deny", "decision=deny"):
            shown(fetch(person, "POST", _at(world, path, sealed), body), 403, "forbidden")


def test_az_19_interaction_of_another_browser_is_refused(world: LiveServers) -> None:
    alice, mallory = signed_in(world), signed_in(world, "mallory")
    alices, mallorys = consent_page(world, alice), consent_page(world, mallory)
    strangers = UserAgent(world.auth)
    consents, codes = count(world, "consents"), count(world, "vouchers")
    with world.nothing_changes():
        _forbidden(world, mallory, alices, _sealed(alices))
        _forbidden(world, alice, mallorys, _sealed(mallorys))
        _forbidden(world, strangers, alices, _sealed(alices))
        stolen = _decided(world, alice, alices)
        shown(fetch(mallory, "GET", stolen), 403, "forbidden")
        shown(fetch(strangers, "GET", stolen), 403, "forbidden")
    assert (count(world, "consents"), count(world, "vouchers")) == (consents, codes)
    yes(world, fetch(alice, "GET", stolen))


def test_az_19_sign_in_form_of_another_browser_is_refused(world: LiveServers) -> None:
    mallory, alice = UserAgent(world.auth), UserAgent(world.auth)
    page = world.ask(mallory)
    world.ask(alice)
    form = {**dict(page.forms[0].fields), "username": "alice", "password": PASSWORD}
    with world.nothing_changes():
        for person in (alice, UserAgent(world.auth)):
            answer = fetch(person, "POST", page.url, urlencode(form))
            shown(answer, 403, "forbidden")
            assert "session" not in str(answer.headers.get_all("set-cookie"))
    assert mallory.sign_in(page, "mallory", PASSWORD).status == 200


def test_az_19_interaction_requires_both_cookies_of_its_browser(world: LiveServers) -> None:
    alice, mallory = signed_in(world), signed_in(world, "mallory")
    page = consent_page(world, alice)
    sealed = _sealed(page)
    thief = UserAgent(world.auth)
    with world.nothing_changes():
        thief.cookies = {"valetkey-session": alice.cookies["valetkey-session"]}
        _forbidden(world, thief, page, sealed)
        thief.cookies = {
            "valetkey-session": alice.cookies["valetkey-session"],
            "valetkey-browser": mallory.cookies["valetkey-browser"],
        }
        _forbidden(world, thief, page, sealed)
        thief.cookies = {
            "valetkey-browser": alice.cookies["valetkey-session"],
            "valetkey-session": alice.cookies["valetkey-session"],
        }
        _forbidden(world, thief, page, sealed)
        # Somebody else's session in the browser of the interaction: the form was not for them.
        thief.cookies = {
            "valetkey-browser": alice.cookies["valetkey-browser"],
            "valetkey-session": mallory.cookies["valetkey-session"],
        }
        answer = fetch(thief, "POST", _at(world, "consent", sealed), urlencode(_pairs(page)))
        shown(answer, 403, "forbidden")


def test_az_19_interaction_is_bound_to_the_browser_that_opens_its_link(world: LiveServers) -> None:
    parameters = {"response_type": "code", "client_id": "web1", "redirect_uri": CALLBACK}
    mallory, alice = signed_in(world, "mallory"), signed_in(world)
    sent = fetch(mallory, "POST", f"{world.auth}/oauth/authorize", parameters)
    link = urljoin(world.auth, sent.location)
    page = alice.open(link)
    assert page.status == 200
    assert any(button.id == "allow" for button in page.buttons)
    # What mallory knows, the link, was changed into something bound to alice's browser.
    _forbidden(world, mallory, page, _sealed(page))
    with world.nothing_changes():
        for path in ("sign-in", "consent"):
            shown(fetch(mallory, "GET", _at(world, path, _sealed_in(link))), 400, "invalid_request")
    yes(world, alice.allow(page), state=None)


def _sealed_in(link: str) -> str:
    return parse_qs(urlsplit(link).query)["interaction"][0]


def test_az_20_decision_expires_after_15_minutes(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice)
    decided = _decided(world, alice, page)
    world.servers.clock.forward(minutes(15))
    issued = world.events("code.issued"), count(world, "consents")
    for url in (decided, *(_at(world, path, _sealed(page)) for path in ("authorize", "consent"))):
        again = alice.open(url)
        assert any(button.id == "allow" for button in again.buttons), url
        assert _sealed(again) != _sealed(page)
    url = _at(world, "consent", _sealed(page))
    answer = fetch(alice, "POST", url, urlencode(_pairs(page)), {"origin": world.auth})
    again = alice.open(urljoin(world.auth, answer.location))
    assert any(button.id == "allow" for button in again.buttons)
    assert (world.events("code.issued"), count(world, "consents")) == issued
    world.servers.clock.forward(hours(24))
    with world.nothing_changes():
        for path in _PAGES:
            shown(fetch(alice, "GET", _at(world, path, _sealed(page))), 400, "invalid_request")


def test_az_20_decision_before_the_request_expires_is_accepted(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice)
    world.servers.clock.forward(seconds(14 * 60 + 30))
    yes(world, alice.allow(page))


def test_az_20_decision_is_not_reused_after_its_record_was_swept(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice)
    decided = _decided(world, alice, page)
    yes(world, fetch(alice, "GET", decided))
    world.servers.write(lambda tx: tx.db.run("DELETE FROM consents"))
    world.servers.clock.forward(hours(7))
    world.servers.write(lambda tx: tx.vouchers.sweep(world.servers.clock.now(), 1_000))
    issued = world.events("code.issued")
    again = alice.open(decided)
    assert any(button.id in {"allow", "sign-in"} for button in again.buttons)
    assert world.events("code.issued") == issued


def test_az_20_consent_of_disabled_or_signed_out_user_is_refused(world: LiveServers) -> None:
    world.servers.register_user("carol", PASSWORD)
    carol = signed_in(world, "carol")
    page = consent_page(world, carol)
    decided = _decided(world, carol, page)
    switch_user(world, "carol", on=False)
    with world.nothing_changes():
        answer = fetch(carol, "GET", decided)
        assert answer.location.startswith("/oauth/sign-in?interaction=")
        answer = fetch(carol, "POST", _at(world, "consent", _sealed(page)), urlencode(_pairs(page)))
        assert answer.location.startswith("/oauth/authorize?interaction=")
    # Nor does the yes come back when the account does: it was that session's.
    switch_user(world, "carol", on=True)
    again = carol.open(decided)
    assert any(button.id == "sign-in" for button in again.buttons)
    again = carol.sign_in(again, "carol", PASSWORD)
    assert any(button.id == "allow" for button in again.buttons)


def test_az_20_consent_of_one_user_does_not_apply_to_the_next(world: LiveServers) -> None:
    browser = signed_in(world)
    page = consent_page(world, browser, scope="account:read")
    decided = _decided(world, browser, page)
    browser.sign_in(browser.open(_at(world, "sign-in", _sealed(page))), "mallory", PASSWORD)
    answer = browser.open(decided)
    assert answer.status == 200
    assert "mallory" in answer.text
    assert any(button.id == "allow" for button in answer.buttons)


def _twisted(sealed: str) -> list[str]:
    """Sealed texts that differ from a good one in anything."""
    version, _, data = sealed.partition(".")
    half = len(data) // 2
    flipped = [
        f"{version}.{data[:position]}{'A' if data[position] != 'A' else 'B'}{data[position + 1 :]}"
        for position in (*range(0, len(data) - 1, 17), 0, 5, 15, 16, 17, len(data) - 2)
    ]
    return [
        *flipped, data, f"{version}.{data[:half]}", f"{version}.{data[half:]}", f"{version}.",
        f"{version}.{data}{data}", f"{version}.{data}=", f"{version}.{data} ", f" {sealed}",
        f"v2.{data}", f"v0.{data}", f"v01.{data}", f"v{'9' * 400}.{data}", f"V1.{data}",
        f"v１.{data}", f"{version}.{data}\u200b", f"{version}.{data.swapcase()}",
        f"{version}.{data.replace('-', '+').replace('_', '/')}x", "v1.AAAA", "x", "null", "{}",
        "v1." + "A" * 64, "v1." + "A" * 5_000, "..", "é",
    ]  # fmt: skip


def test_az_22_altered_sealed_interaction_is_refused(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice)
    body = urlencode(_pairs(page))
    with world.nothing_changes():
        for sealed in _twisted(_sealed(page)):
            for path in _PAGES:
                shown(fetch(alice, "GET", _at(world, path, sealed)), 400, "invalid_request")
            url = _at(world, "consent", sealed)
            shown(fetch(alice, "POST", url, body), 400, "invalid_request")
    yes(world, alice.allow(page))


def test_az_22_interaction_sealed_by_another_key_or_purpose_is_refused(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice)
    ours = _sealer(world)
    opened = Interaction.open(_sealed(page), ours)
    assert opened is not None
    strangers = Keyring.fresh(SYSTEM.random).sealer
    foreign = opened.seal(strangers, SYSTEM.random)
    other = ours.seal(b"\x80", "signing_keys", SYSTEM.random)
    with world.nothing_changes():
        for sealed in (foreign, other):
            for path in _PAGES:
                shown(fetch(alice, "GET", _at(world, path, sealed)), 400, "invalid_request")
    # The control: the same sealed again by the server's own key is good.
    assert (
        fetch(alice, "GET", _at(world, "consent", opened.seal(ours, SYSTEM.random))).status == 200
    )


def test_az_22_sealed_interaction_of_unknown_format_is_refused_without_server_error(
    world: LiveServers,
) -> None:
    ours = _sealer(world)
    with world.nothing_changes():
        for plain in (
            b"",
            b"\x80",
            b"\x93\x01\x02\x03",
            b"{}",
            b"\xc1",
            b"\xa2\xff\xfe",
            b"\xff" * 64,
        ):
            sealed = ours.seal(plain, "interaction", SYSTEM.random)
            for path in _PAGES:
                url = _at(world, path, sealed)
                shown(fetch(UserAgent(world.auth), "GET", url), 400, "invalid_request")


def test_az_22_sealed_interaction_reveals_no_request_parameter_or_user(world: LiveServers) -> None:
    alice = signed_in(world)
    page = consent_page(world, alice, state="a-state-to-look-for", nonce="a-nonce-to-look-for")
    for text in ("a-state", "a-nonce", "web1", "app.example", "notes", "alice"):
        assert text not in page.url
    assert _sealed(page) != _sealed(consent_page(world, alice))
    opened = Interaction.open(_sealed(page), _sealer(world))
    assert opened is not None
    assert "a-nonce" not in repr(opened)
    assert alice.cookies["valetkey-browser"] not in opened.browser
    assert replace(opened, browser="") != opened


@pytest.mark.parametrize("kind", ["begin", "refuse", "page"])
def test_az_21_unanswered_requests_store_nothing(world: LiveServers, kind: str) -> None:
    parameters = {"response_type": "code", "client_id": "web1", "redirect_uri": CALLBACK}
    target = "/oauth/authorize?" + urlencode({**parameters, "scope": "notes:read"})
    if kind == "refuse":
        target += "&prompt=none"
    if kind == "page":
        target = world.ask(UserAgent(world.auth)).url.removeprefix(world.auth)
    status = {"begin": 303, "refuse": 303, "page": 403}[kind]
    parts = urlsplit(world.auth)
    connection = HTTPConnection(parts.netloc, timeout=CEILING)
    with world.nothing_changes():
        for _ in range(2_000 if kind == "begin" else 200):
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
    connection.close()
