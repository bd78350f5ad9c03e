"""CD: authorization codes."""

import threading
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from tests.support.live import CALLBACK, CHALLENGE, VERIFIER, Answer, LiveServers
from valetkey.kernel.moment import seconds
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.testing.browser import UserAgent

_CHANGES: tuple[Callable[[str], str], ...] = (
    lambda code: code[:-1],
    lambda code: code + "A",
    lambda code: code.swapcase(),
    lambda code: code.replace("vk_ac", "vk_rt"),
    lambda code: " " + code,
    lambda _: "A" * 10_000,
    lambda _: "' OR 1=1 --",
)


def test_cd_01_a_code_is_exchanged_once(world: LiveServers) -> None:
    code = world.code()
    first = world.exchange(code)
    first.ok()
    assert first.json["token_type"] == "bearer"
    world.exchange(code).refused(400, "invalid_grant")


def test_cd_02_replayed_code_revokes_its_tokens(world: LiveServers) -> None:
    code = world.code("ref1")
    answer = world.exchange(code, "ref1")
    answer.ok()
    before = world.events("code.replayed")
    world.exchange(code, "ref1").refused(400, "invalid_grant")
    assert world.events("code.replayed") == before + 1
    assert world.introspect(answer.json["access_token"], "ref1") == {"active": False}
    world.refresh(answer.json["refresh_token"], "ref1").refused(400, "invalid_grant")


@pytest.mark.parametrize("thief", ["web2", "spa1"])
def test_cd_03_other_client_is_refused_and_code_stays_valid(world: LiveServers, thief: str) -> None:
    code = world.code()
    with world.nothing_changes():
        world.exchange(code, thief).refused(400, "invalid_grant")
    world.exchange(code).ok()


@pytest.mark.parametrize(
    "uri",
    ["", "https://app.example/other", f"{CALLBACK}/", f"{CALLBACK}?", CALLBACK.upper()],
)
def test_cd_05_wrong_redirect_uri_invalidates_the_code(world: LiveServers, uri: str) -> None:
    code = world.code()
    world.exchange(code, redirect_uri=uri).refused(400, "invalid_grant")
    world.exchange(code).refused(400, "invalid_grant")


@pytest.mark.parametrize("change", _CHANGES)
def test_cd_06_altered_code_is_refused(world: LiveServers, change: Callable[[str], str]) -> None:
    code = world.code()
    with world.nothing_changes():
        world.exchange(change(code)).refused(400, "invalid_grant")
    world.exchange(code).ok()


def test_cd_07_a_code_expires_after_a_minute(world: LiveServers) -> None:
    code, in_time = world.code(), world.code()
    world.servers.clock.forward(seconds(58))
    world.exchange(in_time).ok()
    world.servers.clock.forward(seconds(3))
    world.exchange(code).refused(400, "invalid_grant")


def test_cd_09_code_raced_by_two_clients_is_exchanged_once_by_its_owner(world: LiveServers) -> None:
    code = world.code()
    answers: dict[str, list[Answer]] = {"web1": [], "web2": []}
    start = threading.Barrier(16)

    def redeem(client_id: str) -> None:
        start.wait()
        answers[client_id].append(world.exchange(code, client_id))

    threads = [threading.Thread(target=redeem, args=(("web1", "web2")[n % 2],)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers["web2"]] == [400] * 8
    assert sorted(answer.status for answer in answers["web1"]) == [200] + [400] * 7


def test_cd_11_verifier_for_a_code_without_challenge_is_refused(world: LiveServers) -> None:
    code = world.code()
    world.exchange(code, code_verifier=VERIFIER).refused(400, "invalid_grant")


@pytest.mark.parametrize(
    "verifier", ["", "a" * 43, CHALLENGE, VERIFIER[:-1], VERIFIER + "\n", "a" * 129]
)
def test_cd_12_wrong_verifier_invalidates_the_code(world: LiveServers, verifier: str) -> None:
    code = world.code(code_challenge=CHALLENGE, code_challenge_method="S256")
    world.exchange(code, code_verifier=verifier).refused(400, "invalid_grant")
    world.exchange(code, code_verifier=VERIFIER).refused(400, "invalid_grant")


def test_cd_13_public_client_without_challenge_is_refused(world: LiveServers) -> None:
    page = world.ask(UserAgent(world.auth), "spa1")
    assert page.redirect_parameters["error"] == "invalid_request"


@pytest.mark.parametrize("method", ["S256%0a", "plain%0agarbage", "plain", "s256", "S512"])
def test_cd_13_challenge_method_other_than_s256_is_refused(world: LiveServers, method: str) -> None:
    page = world.ask(
        UserAgent(world.auth),
        "spa1",
        code_challenge=CHALLENGE,
        code_challenge_method=unquote(method),
    )
    refused_on_page = page.status == 400 and not page.location
    assert refused_on_page or page.redirect_parameters["error"] == "invalid_request"


def test_cd_15_secrets_never_repeat_and_show_no_pattern() -> None:
    drawn = [fresh_secret(Prefix.CODE, SYSTEM.random).reveal() for _ in range(100_000)]
    assert len(set(drawn)) == len(drawn)
    bodies = [text[len("vk_ac_") : -6] for text in drawn]
    assert len({body[1:9] for body in bodies}) > 99_900
    # Every place but the first, which 256 bits do not fill: chi-square of 62 letters at 0.1 %.
    for position in (1, 10, 21, 42):
        counted = Counter(body[position] for body in bodies)
        expected = len(bodies) / 62
        chi = sum((counted[letter] - expected) ** 2 / expected for letter in counted)
        assert len(counted) == 62
        assert chi < 116, (position, chi)


def test_cd_17_scope_in_code_exchange_is_ignored_and_granted_scope_is_returned(
    world: LiveServers,
) -> None:
    answer = world.exchange(world.code(), scope="write admin")
    answer.ok()
    assert answer.json["scope"] == "notes:read"


def test_cd_19_injected_code_is_refused_with_the_victims_verifier(world: LiveServers) -> None:
    attackers = world.code("spa1", user="mallory")
    victims = "a-verifier-of-the-victim-that-is-long-enough-0"
    world.exchange(attackers, "spa1", code_verifier=victims).refused(400, "invalid_grant")
