"""JB: assertions of service accounts: forged, replayed, too long, somebody else's, doubled."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.attacks.grants.several_apis import CALENDAR, FILES, Apis, claims
from tests.conftest import ENGINES
from tests.support import postgres
from tests.support.live import Answer, LiveServers, basic, live_servers, secret_of
from tests.support.operations import run_operation
from valetkey.authorization.operations.client_state import DISABLE, ENABLE
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture(scope="module", params=ENGINES)
def jb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServers]:
    """One authorization server on each engine, with the service account robot."""
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database()) if request.param == "postgres" else ""
        folder = tmp_path_factory.mktemp("jb")
        world = stack.enter_context(live_servers(folder, url, resource=False))
        world.client(
            "robot",
            grant_types=(JWT_BEARER,),
            redirect_uris=(),
            scopes=(),
            key_set=KeySet.of(world.key.public).document().decode(),
            secret=None,
        )
        world.client("secretive", grant_types=(JWT_BEARER,), redirect_uris=(), scopes=())
        yield world


def _assertion(
    world: LiveServers, changes: Mapping[str, object] = {}, key: SigningKey | None = None
) -> str:
    now = world.servers.clock.now()
    claims: dict[str, object] = {
        "iss": "robot",
        "sub": "robot",
        "aud": world.auth,
        "jti": world.servers.runtime.random(16).hex(),
        "exp": now + 60,
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.sign(kept, key or world.key, typ="JWT")


def _present(world: LiveServers, assertion: str, **parameters: str) -> Answer:
    return world.post(
        "/oauth/token", {"grant_type": JWT_BEARER, "assertion": assertion, **parameters}
    )


def test_jb_parallel_uses_of_one_assertion_give_one_token(jb: LiveServers) -> None:
    assertion = _assertion(jb)
    with ThreadPoolExecutor(64) as crowd:
        futures = [crowd.submit(_present, jb, assertion) for _ in range(64)]
        answers = [future.result() for future in futures]
    won = [answer for answer in answers if answer.status == 200]
    assert len(won) == 1
    assert {answer.json["error"] for answer in answers if answer.status != 200} == {"invalid_grant"}
    assert won[0].json["scope"] == "client:read client:write"
    assert not {"uid", "info", "refresh_token"} & won[0].json.keys()
    _present(jb, _assertion(jb), client_id="robot").ok()


@pytest.mark.parametrize(
    "said",
    [
        {"iss": "web1"},
        {"iss": "nobody", "sub": "nobody"},
        {"sub": "1001"},
        {"sub": None},
        {"aud": "https://other.example"},
        {"aud": None},
        {"exp": None},
        {"exp": 1},
        {"exp": 4_000_000_000},
        {"jti": None},
        {"jti": ""},
        {"nbf": 4_000_000_000},
    ],
)
def test_jb_invalid_claims_are_refused(jb: LiveServers, said: dict[str, object]) -> None:
    with jb.nothing_changes():
        _present(jb, _assertion(jb, said)).refused(400, "invalid_grant")


def test_jb_assertion_is_accepted_from_its_own_client_only(jb: LiveServers) -> None:
    with jb.nothing_changes():
        stranger = SigningKey.generate(Algorithm.ES256)
        _present(jb, _assertion(jb, key=stranger)).refused(400, "invalid_grant")
        _present(jb, "x.y.z").refused(400, "invalid_grant")
        _present(jb, _assertion(jb), client_id="web1").refused(400, "invalid_grant")
        # An empty assertion is none, so the client has proven nothing.
        _present(jb, "", client_id="robot").refused(401, "invalid_client")
        twice = {"client_assertion": _assertion(jb), "client_assertion_type": CLIENT_ASSERTION}
        _present(jb, _assertion(jb), **twice).refused(400, "invalid_request")
        form = {"grant_type": JWT_BEARER, "assertion": _assertion(jb)}
        headers = basic("web1", secret_of("web1"))
        jb.post("/oauth/token", form, headers=headers).refused(400, "invalid_request")
        jb.token("secretive", grant_type=JWT_BEARER).refused(400, "invalid_request")
        other = _assertion(jb, {"iss": "pk1", "sub": "pk1"})
        # It is a client's own, but not of one that may use it so.
    _present(jb, other).refused(400, "unauthorized_client")


def test_jb_user_scopes_are_refused(jb: LiveServers) -> None:
    for scope in ("notes:read", "client:read#", "#", "api_1#notes:read"):
        _present(jb, _assertion(jb), scope=scope).refused(400, "invalid_scope")


def test_jb_disabled_account_gets_no_token(jb: LiveServers) -> None:
    run_operation(jb.servers.settings, DISABLE, client_id="robot")
    try:
        # Before and after the server's cache of clients has heard of it.
        for _ in range(3):
            _present(jb, _assertion(jb)).refused(400, "invalid_grant")
    finally:
        run_operation(jb.servers.settings, ENABLE, client_id="robot")
    _present(jb, _assertion(jb)).ok()


def test_jb_resource_must_be_an_api_that_admits_the_account(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("jb-apis")
    with live_servers(folder, resource=False, algorithms=tuple(Algorithm)[:2]) as world:
        apis = Apis(world)
        keys = KeySet.of(world.key.public).document().decode()
        apis.client("robot", (JWT_BEARER,), ("calendar:sync",), key_set=keys)
        answer = _present(world, _assertion(world), resource=CALENDAR.identifier)
        answer.ok()
        assert answer.json["scope"] == "calendar:sync"
        assert claims(answer.json["access_token"])["aud"] == CALENDAR.identifier
        for other in ("https://unknown.example", FILES.identifier, f"{CALENDAR.identifier}/"):
            _present(world, _assertion(world), resource=other).refused(400, "invalid_target")
        registrar, now = apis.registrar, world.servers.clock.now()

        def disable(tx: Transaction) -> bool:
            api = tx.apis.find_to_change(apis.ids[CALENDAR.identifier])
            assert api is not None
            return registrar.disable(tx, api, now)

        assert world.servers.write(disable)
        late = _present(world, _assertion(world), resource=CALENDAR.identifier)
        late.refused(400, "invalid_target")
