"""GR: the grants that are off until an administrator turns them on, and client credentials."""

import asyncio
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.live import (
    CALLBACK,
    PASSWORD,
    SCOPES,
    Answer,
    LiveServers,
    live_servers,
    secret_of,
)
from valetkey.authorization.actions.clients import Registrar, metadata_of
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import hours, minutes, seconds
from valetkey.kernel.replace import replace
from valetkey.testing.browser import Page, UserAgent


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServers]:
    with live_servers(tmp_path_factory.mktemp("fresh")) as world:
        yield world


def _implicit(world: LiveServers, client_id: str = "old1", **parameters: str) -> Page:
    return world.allow(client_id, response_type="token", **parameters)


def _refused_in_fragment(page: Page, code: str) -> None:
    """BACK of the catalogue, in the fragment."""
    assert page.status == 303
    parts = urlsplit(page.location)
    assert not parts.query
    assert page.location.startswith(f"{CALLBACK}#")
    assert page.redirect_parameters["error"] == code
    assert page.redirect_parameters["state"] == "xyz"
    assert page.redirect_parameters["iss"]
    assert not {"access_token", "code"} & set(page.redirect_parameters)


def _password(world: LiveServers, client_id: str = "old1", **parameters: str) -> Answer:
    form = {"username": "alice", "password": PASSWORD, **parameters}
    return world.token(client_id, grant_type="password", **form)


def _registrar(world: LiveServers) -> Registrar:
    servers = world.servers
    foundation = build_foundation(servers.settings, servers.runtime, servers.scopes)
    asyncio.run(foundation.store.engine.close())
    return foundation.registrar("test")


def _change(world: LiveServers, client_id: str, grant_types: Sequence[str]) -> None:
    registrar, now = _registrar(world), world.servers.clock.now()

    def work(tx: Transaction) -> Client | object:
        client = tx.clients.find(client_id)
        assert client is not None
        metadata = replace(metadata_of(client), grant_types=tuple(grant_types))
        return registrar.change(tx, client, metadata, now)

    assert isinstance(world.servers.write(work), Client)


@pytest.mark.parametrize("client_id", ["web1", "spa1", "strict1"])
def test_gr_01_implicit_is_off_by_default(world: LiveServers, client_id: str) -> None:
    with world.nothing_changes():
        page = world.ask(UserAgent(world.auth), client_id, response_type="token")
        _refused_in_fragment(page, "unauthorized_client")


@pytest.mark.parametrize(
    "response_type",
    [
        "id_token",
        "token token",
        "token id_token",
        "TOKEN",
        "token ",
        "none",
        "tok%00en",
    ],
)
def test_gr_02_misspelt_response_type_is_not_implicit(
    world: LiveServers, response_type: str
) -> None:
    with world.nothing_changes():
        page = world.ask(UserAgent(world.auth), "old1", response_type=response_type)
        assert page.status == 303
        assert page.redirect_parameters["error"] in {"unsupported_response_type", "invalid_request"}
        assert "access_token" not in page.location


def test_gr_03_implicit_response_is_in_the_fragment_only(world: LiveServers) -> None:
    page = _implicit(world)
    parts = urlsplit(page.location)
    assert page.location.startswith(f"{CALLBACK}#")
    assert not parts.query
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    response = page.redirect_parameters
    assert set(response) == {
        *("access_token", "token_type", "expires_in", "scope", "uid"),
        *("state", "iss"),
    }
    assert (response["token_type"], response["state"], response["iss"]) == (
        "bearer",
        "xyz",
        world.auth,
    )
    assert 0 < int(response["expires_in"]) <= 600
    assert response["scope"] == "notes:read"
    world.call(response["access_token"]).ok()
    assert response["access_token"] not in page.body


def test_gr_03_implicit_token_ends_at_its_expiry(fresh: LiveServers) -> None:
    token = _implicit(fresh).redirect_parameters["access_token"]
    fresh.call(token).ok()
    fresh.servers.clock.forward(minutes(10))
    assert fresh.call(token).status == 401
    assert fresh.introspect(token, "old1") == {"active": False}


@pytest.mark.parametrize("mode", ["query", "form_post", "web_message", "fragment.jwt"])
def test_gr_04_implicit_with_other_response_modes_is_refused(world: LiveServers, mode: str) -> None:
    with world.nothing_changes():
        page = world.ask(UserAgent(world.auth), "old1", response_type="token", response_mode=mode)
        _refused_in_fragment(page, "invalid_request")
    assert _implicit(world, response_mode="fragment").redirect_parameters["access_token"]


def test_gr_04_implicit_errors_are_returned_in_the_fragment(world: LiveServers) -> None:
    person = UserAgent(world.auth)
    page = person.sign_in(
        world.ask(person, "old1", response_type="token", prompt="consent"), "alice", PASSWORD
    )
    _refused_in_fragment(person.deny(page), "access_denied")
    with world.nothing_changes():
        for parameters, code in (
            ({"scope": "admin"}, "invalid_scope"),
            ({"prompt": "none"}, "login_required"),
        ):
            page = world.ask(UserAgent(world.auth), "old1", response_type="token", **parameters)
            _refused_in_fragment(page, code)


def test_gr_04_implicit_token_is_neither_code_nor_refresh_token(world: LiveServers) -> None:
    token = _implicit(world).redirect_parameters["access_token"]
    world.exchange(token, "old1").refused(400, "invalid_grant")
    world.refresh(token, "old1").refused(400, "invalid_grant")


@pytest.mark.parametrize("client_id", ["web1", "svc1", "strict1", "ref1"])
def test_gr_05_the_password_grant_is_off_by_default(world: LiveServers, client_id: str) -> None:
    with world.nothing_changes():
        _password(world, client_id).refused(400, "unauthorized_client")
        # Whether the password is right is not told either.
        _password(world, client_id, password="x").refused(400, "unauthorized_client")


@pytest.mark.parametrize("client_id", ["spa1", "nat1"])
def test_gr_05_password_grant_is_refused_to_public_clients(
    world: LiveServers, client_id: str
) -> None:
    _password(world, client_id).refused(400, "unauthorized_client")


@pytest.mark.parametrize(
    "said",
    [
        {"type": "public", "grant_types": ("password",)},
        {"type": "public", "grant_types": ("client_credentials",)},
        {"profile": "modern", "grant_types": ("password",)},
        {"profile": "modern", "grant_types": ("authorization_code", "implicit")},
    ],
)
def test_gr_05_forbidden_grant_types_cannot_be_registered(
    world: LiveServers, said: dict[str, object]
) -> None:
    metadata = ClientMetadata(name="Greedy", redirect_uris=(CALLBACK,), scopes=SCOPES)
    changed = replace(metadata, **said)  # type: ignore[arg-type]
    secret = None if said.get("type") == "public" else secret_of("greedy")
    with world.nothing_changes(), pytest.raises(ValueError, match="grant_types"):
        world.servers.register_client(changed, "greedy", secret)


def test_gr_06_password_grant_returns_a_token_of_the_user(world: LiveServers) -> None:
    answer = _password(world, scope="notes:read")
    answer.ok()
    assert answer.json["scope"] == "notes:read"
    assert answer.json["uid"] == world.tokens()["uid"]
    assert int(answer.json["expires_in"]) <= 3_600
    world.call(answer.json["access_token"]).ok()
    _password(world, scope="admin").refused(400, "invalid_scope")
    _password(world, scope="client:write").refused(400, "invalid_scope")


def test_gr_06_wrong_usernames_and_passwords_get_one_error(fresh: LiveServers) -> None:
    wrong = _password(fresh, password="wrong")
    wrong.refused(400, "invalid_grant")
    for credentials in (
        {"password": PASSWORD.upper()},
        {"password": PASSWORD + " "},
        {"password": PASSWORD + "\0"},
        {"password": PASSWORD[:-1]},
        {"password": "x" * 1_025},
        {"username": "nobody"},
        {"username": "alice' --"},
        {"username": "svc1", "password": secret_of("svc1")},
    ):
        answer = _password(fresh, **credentials)
        nameless = {"reference": "", "error_uri": ""}
        assert {**answer.json, **nameless} == {**wrong.json, **nameless}
    _password(fresh).ok()


@pytest.mark.parametrize("missing", ["username", "password"])
def test_gr_06_password_grant_requires_username_and_password(
    world: LiveServers, missing: str
) -> None:
    _password(world, **{missing: ""}).refused(400, "invalid_request")


def test_gr_06_password_grant_is_refused_with_a_second_factor_or_disabled(
    fresh: LiveServers,
) -> None:
    _password(fresh).ok()
    now = fresh.servers.clock.now()

    def add_factor(tx: Transaction) -> None:
        user = tx.users.find_by_name("mallory")
        assert user is not None
        tx.db.send(
            "INSERT INTO credentials (id, uid, kind, data, created_at)"
            " VALUES ('cr_totp', :uid, 'totp', 'sealed', :now)",
            uid=user.uid,
            now=now,
        )

    _password(fresh, username="mallory").ok()
    fresh.servers.write(add_factor)
    _password(fresh, username="mallory").refused(400, "invalid_grant")

    def disable(tx: Transaction) -> bool:
        user = tx.users.find_by_name("alice")
        assert user is not None
        return tx.users.change(replace(user, disabled_at=now))

    assert fresh.servers.write(disable)
    _password(fresh).refused(400, "invalid_grant")


def test_gr_07_sign_in_page_and_password_grant_share_one_attempt_limit(fresh: LiveServers) -> None:
    with fresh.servers.clock.stopped():
        _guess_by_page_and_grant(fresh)


def _guess_by_page_and_grant(fresh: LiveServers) -> None:
    person = UserAgent(fresh.auth)
    page = fresh.ask(person, "web1")
    statuses: list[int] = []
    for n in range(100):
        if n % 2:
            statuses.append(_password(fresh, password=f"guess {n}").status)
        elif n < 40:
            page = person.sign_in(page, "alice", f"guess {n}")
            statuses.append(page.status)
    limit = fresh.servers.settings.limits.sign_in_failures
    assert not {status for status in statuses[:limit] if status not in {400, 401}}
    assert set(statuses[limit:]) == {429}
    # The right password is not looked at any more, by either door, whatever name is used.
    for name in ("alice", "ALICE", "alice@example.com"):
        blocked = _password(fresh, username=name)
        blocked.refused(429, "slow_down")
        assert int(blocked.response.headers["retry-after"]) > 0
    assert person.sign_in(page, "alice", PASSWORD).status == 429
    # Another account is not the one that was guessed at.
    _password(fresh, username="mallory").ok()
    fresh.servers.clock.forward(hours(1))
    _password(fresh).ok()


def test_gr_08_client_credentials_give_a_client_its_own_token(world: LiveServers) -> None:
    answer = world.token("svc1", path="/token", grant_type="client_credentials")
    answer.ok()
    assert set(answer.json) == {"access_token", "token_type", "expires_in", "scope"}
    assert answer.json["scope"] == "client:read client:write"
    introspection = world.introspect(answer.json["access_token"], "svc1")
    assert introspection["sub"] == "svc1"
    assert "grant_id" not in introspection
    world.call(answer.json["access_token"], "/v2/client").ok()


@pytest.mark.parametrize(
    "scope",
    [
        "notes:read",
        "read",
        "openid",
        "offline_access",
        "account:read",
        "admin",
        "client:read admin",
    ],
)
def test_gr_09_user_scopes_and_unknown_scopes_are_refused(world: LiveServers, scope: str) -> None:
    with world.nothing_changes():
        for client_id in ("svc1", "both1"):
            answer = world.token(client_id, grant_type="client_credentials", scope=scope)
            answer.refused(400, "invalid_scope")


@pytest.fixture(scope="module", autouse=True)
def _both(world: LiveServers) -> None:
    world.client("both1", grant_types=("authorization_code", "client_credentials"))


@pytest.mark.parametrize("path", ["/v2/notes", "/v2/account", "/v2/authorizations"])
def test_gr_09_client_credentials_token_gets_no_user_data(world: LiveServers, path: str) -> None:
    for client_id in ("svc1", "both1"):
        token = world.token(client_id, grant_type="client_credentials").json["access_token"]
        with world.nothing_changes():
            for method in ("GET", "POST"):
                assert world.call(token, path, method).status in {403, 405}


def test_gr_09_client_credentials_token_is_for_the_client_and_no_user(world: LiveServers) -> None:
    more = {"username": "alice", "uid": "1001", "sub": "1001", "code": world.code("both1")}
    answer = world.token("both1", grant_type="client_credentials", **more)
    answer.ok()
    assert not {"refresh_token", "uid", "info", "id_token"} & set(answer.json)
    assert world.introspect(answer.json["access_token"], "both1")["sub"] == "both1"


@pytest.mark.parametrize("client_id", ["web1", "spa1", "old1"])
def test_gr_09_clients_without_client_credentials_are_refused(
    world: LiveServers, client_id: str
) -> None:
    for path in ("/token", "/oauth/token"):
        answer = world.token(client_id, path=path, grant_type="client_credentials")
        answer.refused(400, "unauthorized_client")


@pytest.mark.parametrize("name", ["authorization_code", "refresh_token", "password"])
def test_gr_10_short_token_path_accepts_client_credentials_only(
    world: LiveServers, name: str
) -> None:
    code = world.code("old1")
    with world.nothing_changes():
        answer = world.token(
            "old1", path="/token", grant_type=name, code=code, redirect_uri=CALLBACK
        )
        answer.refused(400, "unsupported_grant_type")
        assert "/oauth/token" in answer.json["error_description"]
    world.exchange(code, "old1").ok()


def test_gr_11_disabled_grant_is_refused_and_its_tokens_are_revocable(fresh: LiveServers) -> None:
    tokens = _password(fresh).json
    held = [tokens["access_token"], _implicit(fresh).redirect_parameters["access_token"]]
    assert fresh.refresh(tokens["refresh_token"], "old1").status == 200
    person = UserAgent(fresh.auth)
    page = fresh.ask(person, "old1", response_type="token", prompt="consent")
    page = person.sign_in(page, "alice", PASSWORD)
    _change(fresh, "old1", ("authorization_code", "refresh_token"))
    fresh.servers.clock.forward(seconds(2))
    _password(fresh).refused(400, "unauthorized_client")
    fresh.refresh(tokens["refresh_token"], "old1").refused(400, "invalid_grant")
    again = fresh.ask(UserAgent(fresh.auth), "old1", response_type="token")
    _refused_in_fragment(again, "unauthorized_client")
    # What was already asked is judged again when it is answered.
    late = person.allow(page)
    assert "access_token" not in late.location
    for token in held:
        assert fresh.introspect(token, "old1")["active"] is True
        fresh.token("old1", path="/oauth/revoke", token=token).ok()
        assert fresh.introspect(token, "old1") == {"active": False}


def test_gr_12_metadata_lists_legacy_grants_while_a_client_has_them(fresh: LiveServers) -> None:
    def metadata(name: str) -> list[str]:
        address = f"{fresh.auth}/.well-known/oauth-authorization-server"
        values: list[str] = requests.get(address, timeout=60).json()[name]
        return values

    assert "token" in metadata("response_types_supported")
    assert {"implicit", "password"} <= set(metadata("grant_types_supported"))
    _change(fresh, "old1", ("authorization_code", "refresh_token"))
    assert metadata("response_types_supported") == ["code"]
    assert not {"implicit", "password"} & set(metadata("grant_types_supported"))
