"""LG: signing in, what a session is, and everything that ends one."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.attacks.people.requests.desk import change_password, count, switch_user
from tests.attacks.people.told import consent_page, fetch, owed, shown, signed_in, yes
from tests.attacks.raw import only, request, say
from tests.support.live import PASSWORD, LiveServers, live_servers
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.event.accounts import SignInFailed
from valetkey.config.settings import PasswordSettings, Settings
from valetkey.kernel.moment import hours, minutes
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.testing.browser import Page, UserAgent

_SESSION = re.compile(r"valetkey-session=(vk_[a-z]+_[0-9A-Za-z]+); Path=/; HttpOnly; SameSite=Lax")


@pytest.fixture(autouse=True)
def _nobody_is_held_up(world: LiveServers) -> None:
    """Failures of the test before are forgotten."""
    world.servers.clock.forward(minutes(16))


def _try(world: LiveServers, name: str, password: str, person: UserAgent | None = None) -> Page:
    person = person or UserAgent(world.auth)
    page = person.open(f"{world.auth}/oauth/sign-in")
    return owed(person.sign_in(page, name, password))


def _without_accidents(page: Page, *typed: str) -> str:
    text = re.sub(r'name="csrf" value="[^"]+"', "", page.body)
    for entry in typed:
        text = text.replace(entry, "")
    return text


def _is_in(world: LiveServers, person: UserAgent, name: str = "Alice") -> bool:
    return name in person.open(f"{world.auth}/").text


def _cookies_of(page: Page) -> list[str]:
    return page.headers.get_all("set-cookie") or []


def test_lg_02_sign_in_never_adopts_a_planted_session(world: LiveServers) -> None:
    planted = fresh_secret(Prefix.SESSION, SYSTEM.random).reveal()
    mallorys = signed_in(world, "mallory")
    url = f"{world.auth}/oauth/sign-in"
    for session in (planted, mallorys.cookies["valetkey-session"], "x", "; "):
        person = UserAgent(world.auth)
        csrf = dict(person.open(url).forms[0].fields)["csrf"]
        person.cookies["valetkey-session"] = session
        form = {"username": "alice", "password": PASSWORD, "csrf": csrf}
        answer = fetch(person, "POST", url, form)
        (fresh,) = (
            match[1] for cookie in _cookies_of(answer) if (match := _SESSION.fullmatch(cookie))
        )
        assert fresh != session
        thief = UserAgent(world.auth)
        thief.cookies = {"valetkey-session": session}
        assert not _is_in(world, thief)
    # Whose session was there before is signed out, not carried along.
    assert not _is_in(world, mallorys, "Mallory")


def test_lg_02_every_sign_in_replaces_the_session_cookie(
    world: LiveServers,
) -> None:
    person = signed_in(world)
    seen = {person.cookies["valetkey-session"]}
    for _ in range(3):
        old = UserAgent(world.auth)
        old.cookies = dict(person.cookies)
        page = world.ask(person, prompt="login")
        person.sign_in(page, "alice", PASSWORD)
        assert person.cookies["valetkey-session"] not in seen
        seen.add(person.cookies["valetkey-session"])
        assert _is_in(world, person)
        assert not _is_in(world, old)


def test_lg_06_cookies_are_for_this_host_and_not_for_scripts(world: LiveServers) -> None:
    person = UserAgent(world.auth)
    first = fetch(person, "GET", f"{world.auth}/oauth/sign-in")
    (browser,) = _cookies_of(first)
    assert re.fullmatch(
        r"valetkey-browser=vk_[a-z]+_[0-9A-Za-z]+; Path=/; HttpOnly; SameSite=Lax", browser
    )
    page = person.open(f"{world.auth}/oauth/sign-in")
    form = {**dict(page.forms[0].fields), "username": "alice", "password": PASSWORD}
    cookies = _cookies_of(fetch(person, "POST", f"{world.auth}/oauth/sign-in", form))
    session, mark, familiar = cookies
    assert _SESSION.fullmatch(session)
    assert re.fullmatch(
        r"valetkey-familiar=[0-9A-Za-z_.-]+; Path=/; Max-Age=[0-9]+; HttpOnly; SameSite=Lax",
        familiar,
    )
    # Scripts of our own frame compare it; it opens nothing.
    assert re.fullmatch(r"valetkey-browser-state=[0-9A-Za-z_-]{43}; Path=/; SameSite=Lax", mark)
    thief = UserAgent(world.auth)
    thief.cookies = {"valetkey-session": mark.partition(";")[0].partition("=")[2]}
    assert not _is_in(world, thief)
    assert "domain" not in f"{browser}{session}{mark}".lower()


def test_lg_06_cookie_secrets_are_in_no_page_and_no_table(world: LiveServers) -> None:
    person = signed_in(world)
    secrets = list(person.cookies.values())
    pages = [consent_page(world, person), person.open(f"{world.auth}/")]
    assert not [page for page in pages if any(secret in page.body for secret in secrets)]
    kept = world.servers.write(
        lambda tx: repr([tx.db.rows(f"SELECT * FROM {t}") for t in ("sessions", "events")])
    )
    assert not any(secret in kept for secret in secrets)


def test_lg_06_repeated_or_malformed_session_cookie_is_ignored(world: LiveServers) -> None:
    person, mallory = signed_in(world), signed_in(world, "mallory")
    good, bad = person.cookies["valetkey-session"], mallory.cookies["valetkey-session"]
    target = "/"
    for pairs, inside in (
        (f"valetkey-session={good}", True),
        (f"a=b; valetkey-session={good}; c=d", True),
        (f"valetkey-session={good}; valetkey-session={bad}", False),
        (f"valetkey-session={bad}; valetkey-session={good}", False),
        (f"valetkey-session={good}; valetkey-session=", False),
        (f'valetkey-session="{good}"', False),
        (f"Valetkey-Session={good}", False),
        (f"valetkey-session={good}\x01", None),
        (f"valetkey-session={good}; " + "; ".join(f"c{n}=x" for n in range(200)), False),
        (f"valetkey-session={good}; x={'y' * 5_000}", False),
    ):
        sent = request(world.auth, "GET", target, headers=[f"Cookie: {pairs}"])
        reply = only(say(world.auth, sent))
        if inside is None:
            assert b"Alice" not in reply.body
            continue
        assert reply.status == 200
        assert (b"Alice" in reply.body) == inside, pairs[:60]
        assert b"Mallory" not in reply.body or pairs.startswith("valetkey-session=" + bad)


def test_lg_07_a_session_id_has_256_bits_and_all_of_them_count(world: LiveServers) -> None:
    person = signed_in(world)
    whole = person.cookies["valetkey-session"]
    drawn = {fresh_secret(Prefix.SESSION, SYSTEM.random).reveal() for _ in range(10_000)}
    assert len(drawn) == 10_000
    start = len(whole) - len(whole.rpartition("_")[2])
    assert len({text[start : start + 9] for text in drawn}) > 9_990
    assert 62 ** (len(whole) - start - 6) >= 2**256
    thief = UserAgent(world.auth)
    for text in (
        whole[:-1], whole[1:], whole[:32], whole + "x", whole.swapcase(), f" {whole}", whole + "%",
        "%", "_", "*", "' or '1'='1", whole.replace("vk", "VK"), whole[:20] + "%25", "",
        whole[:-7] + ("A" if whole[-7] != "A" else "B") + whole[-6:], *list(drawn)[:5],
    ):  # fmt: skip
        thief.cookies = {"valetkey-session": text}
        assert not _is_in(world, thief), text
    thief.cookies = {"valetkey-session": whole}
    assert _is_in(world, thief)


def test_lg_12_sign_in_error_page_does_not_reveal_whether_an_account_exists(
    world: LiveServers,
) -> None:
    world.servers.register_user("dora", PASSWORD)
    switch_user(world, "dora", on=False)
    known_page = _try(world, "alice", "wrong horse battery staple")
    assert known_page.status == 401
    expected = _without_accidents(known_page, "alice")
    for name, password in (
        ("nobody", "wrong horse battery staple"),
        ("nobody@example.com", "x"),
        ("alice@example.com", "wrong horse battery staple"),
        ("dora", "wrong horse battery staple"),
        ("dora", PASSWORD),
        ("alice", ""),
        ("alice", "x" * 2_000),
    ):
        page = _try(world, name, password)
        assert page.status == 401
        assert _without_accidents(page, name) == expected, name
        assert page.headers.keys() == known_page.headers.keys()


def test_lg_12_response_time_does_not_tell_whether_an_account_exists(tmp_path: Path) -> None:
    # Hashes cost what they cost users.
    settings = Settings(passwords=PasswordSettings(queue=100))
    with live_servers(tmp_path, resource=False, settings=settings) as servers:
        _compare_times(servers)


def _compare_times(servers: LiveServers) -> None:
    def took(name: str) -> float:
        person = UserAgent(servers.auth)
        page = person.open(f"{servers.auth}/oauth/sign-in")
        # Processor time, hashing included: the servers run in this process.
        began = time.process_time()
        assert person.sign_in(page, name, "wrong horse battery staple").status == 401
        return time.process_time() - began

    pairs = [(took("alice"), took(f"nobody{number}")) for number in range(8)]
    known, unknown = (min(durations) for durations in zip(*pairs, strict=True))
    # Without the same hashing for nobody, one would be ten times faster than the other.
    assert 1 / 3 < known / unknown < 3, (known, unknown)


@pytest.mark.parametrize("name", ["alice", "nobody", "alice@example.com"])
def test_lg_12_failed_sign_ins_are_limited_for_known_and_unknown_names_alike(
    world: LiveServers, name: str
) -> None:
    person = UserAgent(world.auth)
    limit = world.servers.settings.limits.sign_in_failures
    statuses = [_try(world, name, "wrong", person).status for _ in range(limit + 2)]
    assert statuses == [401] * limit + [429] * 2
    page = _try(world, name, PASSWORD, person)
    assert page.status == 429
    assert int(page.headers["retry-after"]) > 0
    assert "valetkey-session" not in person.cookies
    # Somebody else is not held up by it.
    assert _try(world, "mallory", PASSWORD).status == 200
    world.servers.clock.forward(minutes(15))
    if name != "nobody":
        assert _try(world, name, PASSWORD).status == 200


@pytest.mark.parametrize(
    "password",
    ["", " ", "null", "undefined", "0", "true", "[]", PASSWORD + "\0", PASSWORD + "x",
     PASSWORD[:12], "correct\0horse", "x" * 73, "x" * 10_240, PASSWORD + "x" * 1_024,
     PASSWORD.upper(), f" {PASSWORD}", f"{PASSWORD} ", PASSWORD.replace(" ", "\u00a0"),
     "%", "' or '1'='1", "$argon2id$v=19$m=19456,t=2,p=1$AAAA$AAAA", "\ud7ff", "\U0001f511"],
)  # fmt: skip
def test_lg_13_empty_overlong_and_odd_passwords_are_refused(
    world: LiveServers, password: str
) -> None:
    sessions = count(world, "sessions")
    for name in ("alice", "nobody"):
        person = UserAgent(world.auth)
        page = _try(world, name, password, person)
        assert page.status == 401
        assert "valetkey-session" not in person.cookies
        assert len(password) < 12 or password not in page.body
    assert count(world, "sessions") == sessions


def test_lg_13_long_passwords_are_not_truncated(world: LiveServers) -> None:
    long = "x" * 1_023
    world.servers.register_user("longy", long + "a")
    for wrong in (long, long + "b", long + "aa", long[:72] + "a", long[:72]):
        assert _try(world, "longy", wrong).status == 401
    assert _try(world, "longy", long + "a").status == 200


def test_lg_15_all_spellings_of_one_account_share_one_counter(world: LiveServers) -> None:
    spellings = ("alice", "ALICE", " alice ", "Alice", "alice@example.com", "ALICE@EXAMPLE.COM",
                 "ａlice", "alice@EXAMPLE.com ", "\talice", "aliCe\n")  # fmt: skip
    limit = world.servers.settings.limits.sign_in_failures
    guesses = [spellings[number % len(spellings)] for number in range(limit)]
    assert [_try(world, name, "wrong").status for name in guesses] == [401] * limit
    for name in spellings:
        assert _try(world, name, PASSWORD).status == 429


def test_lg_15_failures_for_a_plus_tag_address_do_not_lock_the_account(
    world: LiveServers,
) -> None:
    for number in range(world.servers.settings.limits.sign_in_failures + 5):
        assert _try(world, f"alice+{number}@example.com", PASSWORD).status == 401
    assert _try(world, "alice", PASSWORD).status == 200


def test_lg_15_failed_sign_ins_are_recorded(world: LiveServers) -> None:
    failed = world.events(SignInFailed.name)
    for _ in range(3):
        _try(world, "alice", "wrong")
    assert world.events(SignInFailed.name) == failed + 3


def test_lg_19_password_change_ends_sessions_grants_and_open_requests(world: LiveServers) -> None:
    world.servers.register_user("erin", PASSWORD)
    first, second = signed_in(world, "erin"), signed_in(world, "erin")
    page = consent_page(world, first)
    other = consent_page(world, second)
    tokens = world.exchange(yes(world, first.allow(page))).json
    code = yes(world, world.ask(first))
    change_password(world, "erin", "another horse battery staple")
    for person in (first, second):
        assert not _is_in(world, person, "Erin")
    answer = second.allow(other)
    assert any(button.id == "sign-in" for button in answer.buttons)
    world.refresh(tokens["refresh_token"]).refused(400, "invalid_grant")
    world.exchange(code).refused(400, "invalid_grant")
    assert world.introspect(tokens["access_token"]) == {"active": False}
    assert _try(world, "erin", PASSWORD).status == 401
    assert _try(world, "erin", "another horse battery staple").status == 200


def test_lg_21_parallel_sign_ins_each_get_their_own_session(world: LiveServers) -> None:
    names = [f"person{number}" for number in range(16)]
    for name in names:
        world.servers.register_user(name, PASSWORD)
    with ThreadPoolExecutor(16) as pool:
        people = list(pool.map(partial(signed_in, world), names))
    assert len({person.cookies["valetkey-session"] for person in people}) == len(names)
    for name, person in zip(names, people, strict=True):
        shown_name = re.findall(r"Person\d+", person.open(f"{world.auth}/").text)
        assert set(shown_name) == {name.capitalize()}


def test_lg_23_sign_out_ends_session_open_forms_and_bound_tokens(world: LiveServers) -> None:
    world.client("bound1", ends_with_session=True)
    person = signed_in(world)
    bound = world.exchange(
        yes(world, person.allow(consent_page(world, person, "bound1"))), "bound1"
    )
    free = world.exchange(yes(world, person.allow(consent_page(world, person))))
    consent = consent_page(world, person)
    stolen = UserAgent(world.auth)
    stolen.cookies = dict(person.cookies)
    page = person.open(f"{world.auth}/oauth/sign-out")
    assert page.headers["cache-control"] == "no-store"
    person.submit(page, "sign-out")
    assert "valetkey-session" not in person.cookies
    for browser in (person, stolen):
        assert not _is_in(world, browser)
        answer = browser.open(consent.url)
        assert any(button.id == "sign-in" for button in answer.buttons)
    # Back and Allow: the form is not good any more for anybody.
    assert any(button.id == "sign-in" for button in stolen.allow(consent).buttons)
    world.refresh(bound.json["refresh_token"], "bound1").refused(400, "invalid_grant")
    world.refresh(free.json["refresh_token"]).ok()
    # Once more is no mistake, with the page of before or without anything.
    assert person.submit(page, "sign-out").status == 200


@pytest.mark.parametrize(("unused", "inside"), [(7, True), (8, False)])
def test_lg_23_unused_session_ends_after_eight_hours(
    world: LiveServers, unused: int, *, inside: bool
) -> None:
    person = signed_in(world)
    world.servers.clock.forward(hours(unused))
    assert _is_in(world, person) == inside


@pytest.mark.parametrize(
    "email",
    ["a@b\nBcc: x@evil.test", "a@b\r\nBcc: x", "a@b%0aBcc: x", "a b@example.com", "a@b\0", "@b",
     "a@", "", "a", "a@b\u2028c", "a" * 200 + "@example.com", "a@b\x85c", "a\u202e@b"],
)  # fmt: skip
def test_lg_25_email_address_cannot_inject_mail_headers(email: str) -> None:
    assert "email" in {fault.field for fault in UserRecord("frank", email).faults()}


@pytest.mark.parametrize(
    "username",
    [
        "a b",
        "a@b",
        "a＠b",
        "",
        "a\0b",
        "a\nb",
        "a\u202eb",
        "a\u00a0b",
        "a\u3000b",
        "a¨b",
        "a" * 201,
    ],
)
def test_lg_25_username_that_is_malformed_or_like_an_email_is_refused(username: str) -> None:
    faults = UserRecord(username, "frank@example.com").faults()
    assert "username" in {fault.field for fault in faults}


def test_lg_pages_without_an_authorization_request_start_no_sign_in_to_an_app(
    world: LiveServers,
) -> None:
    person = signed_in(world)
    page = fetch(person, "GET", f"{world.auth}/oauth/sign-in")
    assert page.headers["location"] == "/"
    for query in ("interaction", "interaction=", "x=y"):
        page = fetch(UserAgent(world.auth), "GET", f"{world.auth}/oauth/sign-in?{query}")
        assert page.status == 200
    shown(fetch(person, "GET", f"{world.auth}/oauth/consent"), 400, "invalid_request")
    shown(fetch(person, "POST", f"{world.auth}/oauth/consent", ""), 400, "invalid_request")
    shown(fetch(person, "POST", f"{world.auth}/oauth/switch-account", ""), 400, "invalid_request")


def test_lg_23_active_session_ends_after_its_maximum_lifetime(world: LiveServers) -> None:
    person = signed_in(world)
    for _ in range(102):
        world.servers.clock.forward(hours(7))
        assert _is_in(world, person)
    world.servers.clock.forward(hours(7))
    assert not _is_in(world, person)
