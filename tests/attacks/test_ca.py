"""CA: client authentication."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote_plus

import pytest

from tests.support.live import Answer, LiveServers, basic, live_servers, secret_of
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.model.client import Client
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.secret import Secret
from valetkey.resource.scopes import SCOPES

_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def _assertion(
    world: LiveServers, changes: Mapping[str, object] = {}, key: SigningKey | None = None
) -> str:
    now = world.servers.clock.now()
    claims: dict[str, object] = {
        "iss": "pk1",
        "sub": "pk1",
        "aud": world.auth,
        "jti": str(world.servers.runtime.random(16).hex()),
        "iat": now,
        "exp": now + 60,
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.sign(kept, key or world.key, typ="JWT")


def _by_assertion(
    world: LiveServers, assertion: str, path: str = "/token", **parameters: str
) -> Answer:
    return world.token(
        "pk1",
        path=path,
        grant_type="client_credentials",
        client_assertion=assertion,
        client_assertion_type=_TYPE,
        **parameters,
    )


def test_ca_01_two_authentication_methods_at_once_are_refused(world: LiveServers) -> None:
    header = basic("web1", secret_of("web1"))
    body = {"grant_type": "client_credentials", "client_id": "web1"}
    secret = {"client_secret": secret_of("web1")}
    assertion = {"client_assertion": _assertion(world), "client_assertion_type": _TYPE}
    empty = basic("web1", "")
    query = f"grant_type=client_credentials&client_id=web1&client_secret={secret_of('web1')}"
    with world.nothing_changes():
        world.post("/token", {**body, **secret}, headers=header).refused(400, "invalid_request")
        world.post("/token", {**body, **assertion}, headers=header).refused(400, "invalid_request")
        world.post("/token", {**body, **secret, **assertion}).refused(400, "invalid_request")
        world.post("/token", query=query, headers=header).refused(400, "invalid_request")
        world.post("/token", {**body, **secret}, headers=empty).refused(400, "invalid_request")
        world.post("/token", {**body, **assertion}, headers=empty).refused(400, "invalid_request")


@pytest.mark.parametrize("secret", ["", "null", "undefined", "0", " ", "%00", "\u00e9"])
def test_ca_03_empty_and_placeholder_secrets_are_refused(world: LiveServers, secret: str) -> None:
    form = f"grant_type=client_credentials&client_id=svc1&client_secret={quote_plus(secret)}"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    with world.nothing_changes():
        world.post("/token", form, headers=headers).refused(401, "invalid_client")
        answer = world.post(
            "/token", {"grant_type": "client_credentials"}, headers=basic("svc1", secret)
        )
        answer.refused(401, "invalid_client")


def test_ca_03_missing_secret_is_refused(world: LiveServers) -> None:
    world.token("svc1", path="/token", client_secret="", grant_type="client_credentials").refused(
        401, "invalid_client"
    )
    world.post("/token", {"grant_type": "client_credentials"}).refused(401, "invalid_client")


def test_ca_05_basic_credentials_are_form_encoded_and_raw_ones_tolerated(
    world: LiveServers,
) -> None:
    odd = "a secret with+plus%25 and : colon, 32 at least"
    registrar = _registrar(world)

    now = world.servers.clock.now()
    faults = world.servers.write(
        lambda tx: registrar.issue_secret(tx, _svc1(tx), Secret(odd), now, others_live=None)
    )
    assert faults == ()
    form = {"grant_type": "client_credentials"}
    world.post("/token", form, headers=basic("svc1", quote_plus(odd))).ok()
    world.post("/token", form, headers=basic("svc1", odd)).ok()
    world.post("/token", form, headers=basic("svc1", odd.replace("+", "-"))).refused(
        401, "invalid_client"
    )


def _svc1(tx: Transaction) -> Client:
    client = tx.clients.find("svc1")
    assert client is not None
    return client


def _registrar(world: LiveServers) -> Registrar:
    servers = world.servers
    foundation = build_foundation(servers.settings, servers.runtime, SCOPES)
    asyncio.run(foundation.store.engine.close())
    return foundation.registrar("test")


@pytest.mark.parametrize(
    "value",
    [
        "Basic",
        "Basic ",
        "Basic  eDp5",
        "Basic c3Zj MTp4",
        "Basic c3ZjMTp4!",
        "Basic c3ZjMTp",
        "Basic c3ZjMTp4==",
        "Basic _-__",
        "Basic /v8=",
        "Basic c3ZjMQ==",
        "Basic c3ZjMTpcMA==",
        "Basic AHN2YzE6eA==",
        "Bearer c3ZjMTp4",
        "Digest username=svc1",
    ],
)
def test_ca_07_malformed_authorization_headers_are_refused(world: LiveServers, value: str) -> None:
    answer = world.post(
        "/token", {"grant_type": "client_credentials"}, headers={"Authorization": value}
    )
    answer.refused(401, "invalid_client")


def test_ca_10_assertion_authenticates_the_client(world: LiveServers) -> None:
    answer = _by_assertion(world, _assertion(world))
    answer.ok()
    both = [world.auth, f"{world.auth}/oauth/token"]
    for audience in (*both, both, [world.auth]):
        _by_assertion(world, _assertion(world, {"aud": audience})).ok()


def test_ca_10_assertion_names_issuer_or_token_endpoint_and_nothing_else(
    world: LiveServers,
) -> None:
    for audience in (
        [world.auth, "https://other.example"],
        ["https://other.example", f"{world.auth}/oauth/token"],
        [world.auth, f"{world.auth}/oauth/introspect"],
        f"{world.auth}/oauth/introspect",
        f"{world.auth}/oauth/revoke",
        f"{world.auth}/",
        [world.auth, 7],
        [],
    ):
        _by_assertion(world, _assertion(world, {"aud": audience})).refused(401, "invalid_client")
    for path in ("/oauth/introspect", "/oauth/revoke"):
        own = _assertion(world, {"aud": world.auth + path})
        _by_assertion(world, own, path, token="x").refused(401, "invalid_client")
        assert _by_assertion(world, _assertion(world), path, token="x").status == 200


def test_ca_10_assertion_is_accepted_without_client_id(world: LiveServers) -> None:
    body = {
        "grant_type": "client_credentials",
        "client_assertion": _assertion(world),
        "client_assertion_type": _TYPE,
    }
    world.post("/token", body).ok()


def test_ca_11_assertion_with_another_audience_is_refused(world: LiveServers) -> None:
    assertion = _assertion(world, {"aud": "https://evil.test"})
    _by_assertion(world, assertion).refused(401, "invalid_client")


def test_ca_13_reused_assertion_is_refused_at_every_endpoint(world: LiveServers) -> None:
    assertion = _assertion(world)
    _by_assertion(world, assertion).ok()
    _by_assertion(world, assertion).refused(401, "invalid_client")
    again = _by_assertion(world, assertion, "/oauth/introspect", token="x")
    again.refused(401, "invalid_client")
    _by_assertion(world, assertion, "/oauth/revoke", token="x").refused(401, "invalid_client")


@pytest.mark.parametrize(
    "said",
    [
        {"iss": "web1"},
        {"sub": "web1"},
        {"iss": "web1", "sub": "web1"},
        {"sub": None},
        {"iss": None},
        {"iss": 1},
        {"jti": None},
        {"jti": ""},
        {"jti": 7},
        {"jti": "x" * 257},
        {"exp": None},
        {"exp": "9999999999"},
        {"exp": True},
        {"exp": 0},
        {"exp": 1},
        {"exp": 9_000_000_000},
        {"aud": None},
        {"aud": []},
        {"aud": 7},
        {"aud": "https://elsewhere.example"},
    ],
    ids=json.dumps,
)
def test_ca_15_assertion_with_a_wrong_claim_is_refused(
    world: LiveServers, said: dict[str, object]
) -> None:
    with world.nothing_changes():
        answer = _by_assertion(world, _assertion(world, said))
        answer.refused(401, "invalid_client")


def test_ca_15_an_assertion_that_lives_too_long_is_refused(world: LiveServers) -> None:
    late = world.servers.clock.now() + 3_700
    answer = _by_assertion(world, _assertion(world, {"exp": late}))
    answer.refused(401, "invalid_client")


def test_ca_16_assertion_signed_with_another_key_is_refused(world: LiveServers) -> None:
    other = SigningKey.generate(Algorithm.ES256)
    answer = _by_assertion(world, _assertion(world, key=other))
    answer.refused(401, "invalid_client")


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServers]:
    with live_servers(tmp_path_factory.mktemp("fresh"), resource=False) as servers:
        yield servers


def test_ca_17_wrong_secrets_are_limited_per_client(fresh: LiveServers) -> None:
    form = {"grant_type": "client_credentials"}
    # Five more attempts a second are allowed: on a slow machine the limit was never met.
    with fresh.servers.clock.stopped():
        guesses = [
            fresh.post("/token", form, headers=basic("svc1", f"{n:040}")).status for n in range(300)
        ]
        blocked = fresh.post("/token", form, headers=basic("svc1", "x" * 40))
    assert guesses == [401] * 300
    blocked.refused(429, "slow_down")
    assert int(blocked.response.headers["retry-after"]) > 0
    # Who has the secret is not shut out by who guesses, and nobody else is.
    fresh.token("svc1", path="/token", grant_type="client_credentials").ok()
    fresh.post("/token", form, headers=basic("web1", "x" * 40)).refused(401, "invalid_client")


def test_ca_19_disabled_client_gets_the_same_error_as_an_unknown_one(fresh: LiveServers) -> None:
    registrar, now = _registrar(fresh), fresh.servers.clock.now()
    token = fresh.token("svc1", path="/token", grant_type="client_credentials").json
    assert fresh.servers.write(lambda tx: registrar.disable(tx, _svc1(tx), now))
    answers = [
        fresh.token("svc1", path="/token", grant_type="client_credentials"),
        fresh.token("svc1", path="/token", grant_type="client_credentials", client_secret="x"),
        fresh.token("nobody", path="/token", grant_type="client_credentials"),
    ]
    bodies = []
    for answer in answers:
        answer.refused(401, "invalid_client")
        bodies.append({**answer.json, "reference": "", "error_uri": ""})
    assert bodies[0] == bodies[1] == bodies[2]
    assert fresh.introspect(token["access_token"], "web1") == {"active": False}


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [("", {400, 401}), ("urn:wrong", {401}), ("twice", {400})],
)
def test_ca_21_missing_wrong_or_repeated_assertion_type_is_refused(
    world: LiveServers, kind: str, statuses: set[int]
) -> None:
    form = f"grant_type=client_credentials&client_id=pk1&client_assertion={_assertion(world)}"
    types = {"": "", "twice": f"&client_assertion_type={_TYPE}" * 2}
    form += types.get(kind, f"&client_assertion_type={kind}")
    answer = world.post(
        "/token", form, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status in statuses
