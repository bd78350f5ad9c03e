"""RT: refresh tokens."""

import threading
from collections.abc import Callable

import pytest

from tests.support.live import PASSWORD, Answer, LiveServers
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.grant_types.refresh_token import fingerprint_of
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.paths import keyring_path
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import days, seconds
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.testing.browser import UserAgent

_CHANGES: tuple[Callable[[str], str], ...] = (
    lambda text: text[:-1],
    lambda text: text + "x",
    lambda text: text.partition(".")[0],
    lambda text: text.replace(".", ".."),
    lambda text: text.replace("vk_rt", "vk_at"),
    lambda text: text.swapcase(),
    lambda text: "vk_rt_" + "A" * 49 + "." + text.partition(".")[2],
    lambda text: text + "\u0130",
)


def test_rt_01_a_public_clients_token_rotates(world: LiveServers) -> None:
    first = world.tokens("spa1")
    answer = world.refresh(first["refresh_token"], "spa1")
    answer.ok()
    assert answer.json["refresh_token"] != first["refresh_token"]
    assert answer.json["access_token"] != first["access_token"]
    world.refresh(answer.json["refresh_token"], "spa1").ok()


def test_rt_01_a_confidential_client_keeps_its_token(world: LiveServers) -> None:
    first = world.tokens()
    answer = world.refresh(first["refresh_token"])
    answer.ok()
    assert answer.json["refresh_token"] == first["refresh_token"]


def test_rt_03_a_repeated_request_gets_the_same_successor(world: LiveServers) -> None:
    token = world.tokens("spa1")["refresh_token"]
    one, two = world.refresh(token, "spa1"), world.refresh(token, "spa1")
    one.ok()
    two.ok()
    assert one.json["refresh_token"] == two.json["refresh_token"]
    world.refresh(one.json["refresh_token"], "spa1").ok()


def test_rt_03_parallel_refreshes_get_the_same_successor(world: LiveServers) -> None:
    token = world.tokens("spa1")["refresh_token"]
    answers: list[Answer] = []
    start = threading.Barrier(64)

    def use() -> None:
        start.wait()
        answers.append(world.refresh(token, "spa1"))

    threads = [threading.Thread(target=use) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["refresh_token"] for answer in answers}) == 1


def test_rt_04_reuse_after_the_grace_period_ends_the_grant(world: LiveServers) -> None:
    token = world.tokens("spa1")["refresh_token"]
    answer = world.refresh(token, "spa1")
    world.servers.clock.forward(seconds(121))
    before = world.events("refresh_token.reused")
    world.refresh(token, "spa1").refused(400, "invalid_grant")
    assert world.events("refresh_token.reused") == before + 1
    world.refresh(answer.json["refresh_token"], "spa1").refused(400, "invalid_grant")


def test_rt_05_reuse_of_a_token_two_rotations_old_ends_the_grant(world: LiveServers) -> None:
    first = world.tokens("spa1")["refresh_token"]
    second = world.refresh(first, "spa1").json["refresh_token"]
    third = world.refresh(second, "spa1").json["refresh_token"]
    world.refresh(first, "spa1").refused(400, "invalid_grant")
    world.refresh(third, "spa1").refused(400, "invalid_grant")


@pytest.mark.parametrize("client_id", ["spa1", "web1"])
def test_rt_05_invented_token_with_known_grant_id_ends_nothing(
    world: LiveServers, client_id: str
) -> None:
    current = world.tokens(client_id)["refresh_token"]
    grant_id = current.partition(".")[2]
    invented = fresh_secret(Prefix.REFRESH_TOKEN, world.servers.runtime.random).reveal()
    another = world.tokens(client_id)["refresh_token"].partition(".")[0]
    for secret in (invented, another):
        with world.nothing_changes():
            answer = world.refresh(f"{secret}.{grant_id}", client_id)
            answer.refused(400, "invalid_grant")
            unknown = world.refresh(f"{secret}.gr_{'A' * 22}", client_id)
            assert answer.json["error_description"] == unknown.json["error_description"]
            if client_id == "web1":
                assert world.introspect(f"{secret}.{grant_id}") == {"active": False}
            world.token(client_id, path="/oauth/revoke", token=f"{secret}.{grant_id}")
    world.refresh(current, client_id).ok()


def test_rt_05_token_of_an_earlier_version_works_and_unproven_reuse_ends_nothing(
    world: LiveServers,
) -> None:
    grant_id = world.tokens("spa1")["refresh_token"].partition(".")[2]
    before = fresh_secret(Prefix.REFRESH_TOKEN, world.servers.runtime.random).reveal()
    keyring = Keyring.parse(keyring_path(world.servers.settings).read_text())
    stored = fingerprint_of(keyring.fingerprint_key, before, grant_id)
    assert world.servers.write(
        lambda tx: tx.db.run(
            "UPDATE grants SET refresh_print = :stored WHERE id = :id", stored=stored, id=grant_id
        )
    )
    second = world.refresh(f"{before}.{grant_id}", "spa1")
    second.ok()
    third = world.refresh(second.json["refresh_token"], "spa1")
    third.ok()
    with world.nothing_changes():
        world.refresh(f"{before}.{grant_id}", "spa1").refused(400, "invalid_grant")
    fourth = world.refresh(third.json["refresh_token"], "spa1")
    fourth.ok()
    world.refresh(second.json["refresh_token"], "spa1").refused(400, "invalid_grant")
    world.refresh(fourth.json["refresh_token"], "spa1").refused(400, "invalid_grant")


def test_rt_06_a_repeat_with_another_scope_is_refused_and_ends_nothing(world: LiveServers) -> None:
    token = world.tokens("spa1", scope="notes:read account:read")["refresh_token"]
    answer = world.refresh(token, "spa1", scope="notes:read")
    answer.ok()
    world.refresh(token, "spa1", scope="account:read").refused(400, "invalid_grant")
    world.refresh(answer.json["refresh_token"], "spa1").ok()


def test_rt_07_confidential_client_must_authenticate_to_refresh(world: LiveServers) -> None:
    token = world.tokens()["refresh_token"]
    with world.nothing_changes():
        world.refresh(token, client_secret="").refused(401, "invalid_client")
        world.refresh(token, "web2").refused(400, "invalid_grant")
        world.refresh(token, "spa1").refused(400, "invalid_grant")
    world.refresh(token).ok()


def test_rt_10_refresh_may_narrow_the_scope_and_keeps_the_granted_one(world: LiveServers) -> None:
    token = world.tokens(scope="notes:read account:read")["refresh_token"]
    narrow = world.refresh(token, scope="notes:read")
    narrow.ok()
    assert narrow.json["scope"] == "notes:read"
    world.refresh(token, scope="notes:read write").refused(400, "invalid_scope")
    assert world.refresh(token).json["scope"] == "notes:read account:read"


def _alice(tx: Transaction) -> User:
    user = tx.users.find_by_name("alice")
    assert user is not None
    return user


def _disable_and_enable(world: LiveServers) -> None:
    accounts, now = Accounts(world.servers.runtime.random), world.servers.clock.now()
    assert world.servers.write(lambda tx: accounts.disable(tx, _alice(tx), now))
    assert world.servers.write(lambda tx: accounts.enable(tx, _alice(tx), now))


def _change_password(world: LiveServers) -> None:
    accounts, now = Accounts(world.servers.runtime.random), world.servers.clock.now()
    same = world.servers.write(lambda tx: tx.users.password_hash(_alice(tx).uid))
    assert same is not None
    world.servers.write(lambda tx: accounts.set_password(tx, _alice(tx), same, now))


@pytest.mark.parametrize("end", [_disable_and_enable, _change_password])
def test_rt_11_tokens_end_when_the_user_is_disabled_or_the_password_changed(
    world: LiveServers, end: Callable[[LiveServers], None]
) -> None:
    tokens = world.tokens("ref1")
    end(world)
    world.refresh(tokens["refresh_token"], "ref1").refused(400, "invalid_grant")
    assert world.introspect(tokens["access_token"], "ref1") == {"active": False}


def test_rt_11_refresh_token_of_a_session_bound_client_ends_at_sign_out(world: LiveServers) -> None:
    world.client("bound1", name="Bound One", ends_with_session=True)
    person = UserAgent(world.auth)
    page = person.sign_in(world.ask(person, "bound1"), "alice", PASSWORD)
    page = page if page.location else person.allow(page)
    tokens = world.exchange(page.redirect_parameters["code"], "bound1").json
    world.refresh(tokens["refresh_token"], "bound1").ok()
    out = person.open(f"{world.auth}/oauth/sign-out")
    person.submit(out, "sign-out")
    world.refresh(tokens["refresh_token"], "bound1").refused(400, "invalid_grant")


def test_rt_12_refresh_token_ends_after_idle_time_and_absolute_lifetime(world: LiveServers) -> None:
    idle = world.tokens()["refresh_token"]
    world.servers.clock.forward(days(31))
    world.refresh(idle).refused(400, "invalid_grant")
    busy = world.tokens()["refresh_token"]
    for _ in range(8):
        world.servers.clock.forward(days(20))
        world.refresh(busy).ok()
    world.servers.clock.forward(days(21))
    world.refresh(busy).refused(400, "invalid_grant")


def test_rt_13_refresh_for_another_resource_is_refused(world: LiveServers) -> None:
    token = world.tokens()["refresh_token"]
    world.refresh(token, resource="https://other.example").refused(400, "invalid_target")
    world.refresh(token, resource=world.api).ok()


@pytest.mark.parametrize("change", _CHANGES)
def test_rt_17_altered_token_is_refused_and_ends_nothing(
    world: LiveServers, change: Callable[[str], str]
) -> None:
    token = world.tokens()["refresh_token"]
    with world.nothing_changes():
        world.refresh(change(token)).refused(400, "invalid_grant")
    world.refresh(token).ok()


def test_rt_18_revoked_refresh_token_and_its_access_token_stay_invalid(world: LiveServers) -> None:
    tokens = world.tokens()
    answer = world.token(path="/oauth/revoke", token=tokens["refresh_token"])
    assert answer.status == 200
    world.refresh(tokens["refresh_token"]).refused(400, "invalid_grant")
    assert world.introspect(tokens["access_token"]) == {"active": False}
