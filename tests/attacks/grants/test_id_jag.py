"""ID-JAG: identity assertions: forged, replayed, of others, for others, widened, and ended."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.attacks.grants.identity_chain import (
    EXCHANGE,
    ID_JAG,
    ID_TOKEN,
    JWT_BEARER,
    METADATA,
    TYP,
    TYPES,
    Chain,
    chained,
    idp_openid,
)
from tests.attacks.grants.several_apis import TOOL, claims
from tests.conftest import ENGINES
from tests.support.live import CODE_GRANT, LiveServers, raw_jwt
from tests.support.operations import run_operation
from tests.support.wait import CEILING
from valetkey.authorization.operations.client_state import DISABLE, ENABLE
from valetkey.authorization.operations.users import DISABLE_USER, ENABLE_USER
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.tokens.identity_assertion import LIFETIME
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import hours
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret, to_base64url


@pytest.fixture(scope="module", params=ENGINES)
def chain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chain]:
    """Two servers, the second one on each engine."""
    with chained(tmp_path_factory.mktemp("chain"), request.param) as servers:
        yield servers


def test_identity_assertion_of_one_server_gives_a_token_of_another(chain: Chain) -> None:
    first = chain.idp.tokens("agent", scope="openid notes:read offline_access")
    for token, kind in ((first["id_token"], "id_token"), (first["refresh_token"], "refresh_token")):
        answer = chain.ask(token, subject_token_type=f"{TYPES}{kind}", scope="notes:read")
        answer.ok()
        body = answer.json
        assert (body["token_type"], body["issued_token_type"]) == ("N_A", ID_JAG)
        assert answer.response.json()["expires_in"] == LIFETIME
        assert body["scope"] == "notes:read"
        assert "refresh_token" not in body
        content = claims(body["access_token"])
        assert {name: content[name] for name in ("iss", "sub", "aud", "client_id", "scope")} == {
            "iss": chain.idp.auth,
            "sub": str(chain.alice(chain.idp)),
            "aud": chain.api.auth,
            "client_id": "agent-here",
            "scope": "notes:read",
        }
        assert jwt.header_of(body["access_token"]).typ == TYP
        # `audience` names the other server, although the settings let it name an API elsewhere.
        assert "resource" not in content
        assert content["auth_time"] == claims(first["id_token"])["auth_time"]
        answer = chain.present(body["access_token"])
        answer.ok()
        assert "refresh_token" not in answer.json
        assert claims(answer.json["access_token"])["sub"] == str(chain.alice(chain.api))
        chain.api.call(answer.json["access_token"]).ok()
    assert chain.idp.events("identity_assertion.issued") >= 2
    assert chain.api.events("identity_assertion.redeemed") >= 2
    # What refreshed the assertion is not used up.
    chain.idp.refresh(first["refresh_token"], "agent").ok()
    metadata = requests.get(chain.api.auth + METADATA, timeout=CEILING).json()
    assert metadata["authorization_grant_profiles_supported"] == [
        "urn:ietf:params:oauth:grant-profile:id-jag"
    ]
    assert metadata["identity_chaining_requested_token_types_supported"] == [ID_JAG]


def test_64_parallel_uses_of_one_assertion_give_one_token(chain: Chain) -> None:
    assertion = chain.jag()
    with ThreadPoolExecutor(64) as crowd:
        answers = list(crowd.map(chain.present, [assertion] * 64))
    assert [answer.status for answer in answers].count(200) == 1
    assert {answer.json["error"] for answer in answers if answer.status != 200} == {"invalid_grant"}


WRONG: tuple[dict[str, object], ...] = (
    {"iss": "https://stranger.example"},
    {"iss": None},
    {"sub": None},
    {"sub": ""},
    {"sub": "nobody-there"},
    {"sub": "x" * 256},
    {"aud": "https://other.example"},
    {"aud": None},
    {"client_id": "other-here"},
    {"client_id": None},
    {"jti": None},
    {"jti": ""},
    {"jti": "x" * 257},
    {"exp": None},
    {"exp": 1},
    {"exp": 4_000_000_000},
    {"iat": None},
    {"iat": 4_000_000_000},
    {"nbf": 4_000_000_000},
    {"auth_time": 4_000_000_000},
    {"auth_time": "yesterday"},
    {"tenant": "acme"},
    {"act": {"sub": "robot"}},
    {"cnf": {"jkt": "x"}},
    {"resource": 7},
    {"resource": [7]},
    {"scope": 7},
)


def test_wrong_claims_are_refused(chain: Chain) -> None:
    here: tuple[dict[str, object], ...] = (
        {"aud": [chain.api.auth, "https://other.example"]},
        {"iss": chain.api.auth},
        {"iss": chain.idp.auth},
    )
    with chain.api.nothing_changes():
        for wrong in (*WRONG, *here):
            chain.present(chain.forge(wrong)).refused(400, "invalid_grant")
        for scope in ("a  b", "api_Calendar#calendar:read", 'a"b'):
            answer = chain.present(chain.forge({"scope": scope}))
            answer.refused(400, "invalid_scope")
        login = chain.forge({"iss": f"{chain.rogue.url}/login-only"})
        chain.present(login).refused(400, "invalid_grant")
    chain.present(chain.forge({"aud": [chain.api.auth]})).ok()


def test_other_jwts_and_keys_are_refused(chain: Chain) -> None:
    good = chain.forge()
    stranger = SigningKey.generate(Algorithm.ES256)
    public = KeySet.of(chain.key.public).document()
    tokens = chain.idp.tokens("agent", scope="openid notes:read")
    header = {"alg": "none", "typ": TYP}
    with chain.api.nothing_changes():
        for wrong in (
            raw_jwt(header, claims(good)),
            raw_jwt(header, claims(good), b"x"),
            jwt.sign(claims(good), stranger, typ=TYP),
            mac.sign_shared(claims(good), Secret(public.decode()), typ=TYP),
            good[:-6] + ("AAAAAA" if good[-6:] != "AAAAAA" else "BBBBBB"),
        ):
            chain.present(wrong).refused(400, "invalid_grant")
        # Another type: it is then an assertion that should authenticate the client.
        for wrong in (
            chain.forge(typ="JWT"),
            chain.forge(typ="at+jwt"),
            tokens["id_token"],
            tokens["access_token"],
        ):
            chain.present(wrong).refused(400, "invalid_request")
            form = {"grant_type": JWT_BEARER, "assertion": wrong}
            chain.api.post("/oauth/token", form).refused(400, "invalid_grant")
    # An assertion is no token of any other kind.
    mine = chain.jag()
    assert chain.api.call(mine).status == 401
    assert chain.api.introspect(mine) == {"active": False}
    assert chain.idp.introspect(mine, "agent") == {"active": False}
    with chain.idp.nothing_changes():
        chain.ask(mine).refused(400, "invalid_grant")
        own = {"grant_type": JWT_BEARER, "assertion": mine}
        chain.idp.post("/oauth/token", own).refused(401, "invalid_client")


def test_assertion_may_have_unknown_header_members_and_fractional_times(chain: Chain) -> None:
    now = chain.api.servers.clock.now()

    def headed(header: Mapping[str, object], changes: Mapping[str, object] = {}) -> str:
        payload = chain.forge({"scope": "notes:read", **changes}).split(".")[1]
        members = {"alg": "ES256", "kid": chain.key.kid, "typ": TYP, **header}
        signed = f"{to_base64url(json.dumps(members).encode())}.{payload}"
        return f"{signed}.{to_base64url(chain.key.sign(signed.encode()))}"

    chain.present(headed({"x5t": "x", "jku": "http://127.0.0.1/", "a": [1]})).ok()
    chain.present(headed({}, {"exp": now + 300.5, "iat": now - 0.5, "auth_time": now - 1.5})).ok()
    for header in ({"crit": ["exp"]}, {"b64": False}, {"typ": "JWT"}, {"alg": "HS256"}):
        assert chain.present(headed(header)).response.status_code == 400, header


def test_assertion_of_another_client_is_refused(chain: Chain) -> None:
    assertion = chain.jag()
    with chain.api.nothing_changes():
        chain.present(assertion, "other-here").refused(400, "invalid_grant")
        chain.present(assertion, "web1").refused(400, "unauthorized_client")
        chain.present(assertion, client_secret="x").refused(401, "invalid_client")
        form = {"grant_type": JWT_BEARER, "assertion": assertion}
        chain.api.post("/oauth/token", form).refused(401, "invalid_client")
        chain.api.post("/oauth/token", {**form, "client_id": "agent-here"}).refused(
            401, "invalid_client"
        )
    chain.present(assertion).ok()


def test_scope_is_limited_to_that_of_the_assertion_and_the_client(chain: Chain) -> None:
    both = chain.forge({"scope": "notes:read notes:write account:read"})
    answer = chain.present(both)
    assert answer.json["scope"] == "notes:read account:read"
    with chain.api.nothing_changes():
        for scope, requested_scope in (
            ("notes:read", "account:read"),
            ("notes:read", "notes:read account:read"),
            ("notes:write", ""),
            ("notes:write", "notes:write"),
            ("openid offline_access", ""),
            ("client:read", ""),
            ("", ""),
            ("", "notes:read"),
        ):
            assertion = chain.forge({"scope": scope or None})
            chain.present(assertion, scope=requested_scope).refused(400, "invalid_scope")
        tokens = chain.idp.tokens("agent", scope="openid notes:read")
        for scope in ("account:read", "notes:read admin"):
            chain.ask(tokens["id_token"], scope=scope).refused(400, "invalid_scope")
    narrow = chain.present(chain.forge({"scope": "notes:read account:read"}), scope="notes:read")
    assert narrow.json["scope"] == "notes:read"


def test_users_outside_the_groups_of_an_api_get_no_token(chain: Chain) -> None:
    calendar = "https://mcp.example.com/mcp"
    assertion = chain.forge({"resource": calendar, "scope": "calendar:read"})
    chain.apis.change(calendar, required_groups=("staff",))
    try:
        with chain.api.nothing_changes():
            chain.present(assertion).refused(400, "invalid_grant")
    finally:
        chain.apis.change(calendar, required_groups=())
    # The refusal did not use it up.
    assert claims(chain.present(assertion).json["access_token"])["aud"] == calendar


def test_token_is_for_an_api_that_the_assertion_names(chain: Chain) -> None:
    calendar, files = "https://mcp.example.com/mcp", "https://files.example.com"
    token = chain.present(chain.jag(resource=calendar, scope="calendar:read"))
    assert claims(token.json["access_token"])["aud"] == calendar
    assert token.json["scope"] == "calendar:read"
    tool = chain.present(chain.forge({"resource": [TOOL.identifier, calendar], "scope": None}))
    assert claims(tool.json["access_token"])["aud"] == TOOL.identifier
    assert "scope" not in tool.json
    with chain.api.nothing_changes():
        for resource, requested_resource in (
            (calendar, TOOL.identifier),
            (calendar, chain.api.api),
            (None, calendar),
            (files, ""),
            ("https://nowhere.example", ""),
        ):
            assertion = chain.forge({"resource": resource, "scope": "calendar:read notes:read"})
            chain.present(assertion, resource=requested_resource).refused(400, "invalid_target")
        # A name of one API says nothing at another.
        wrong = chain.forge({"resource": calendar, "scope": "notes:read"})
        chain.present(wrong).refused(400, "invalid_scope")


def test_exchange_for_assertion_refuses_other_tokens(chain: Chain) -> None:
    mine = chain.idp.tokens("agent", scope="openid notes:read")
    others = chain.idp.tokens("other", scope="openid notes:read")
    plain = chain.idp.tokens("agent", scope="notes:read")
    shared = chain.idp.tokens("hmac", scope="openid")["id_token"]
    refresh, access = f"{TYPES}refresh_token", f"{TYPES}access_token"
    with chain.idp.nothing_changes():
        for token, parameters, code in (
            (others["id_token"], {}, "invalid_grant"),
            (mine["access_token"], {}, "invalid_grant"),
            (mine["access_token"], {"subject_token_type": access}, "invalid_request"),
            (mine["access_token"], {"subject_token_type": refresh}, "invalid_grant"),
            (others["refresh_token"], {"subject_token_type": refresh}, "invalid_grant"),
            (plain["refresh_token"], {"subject_token_type": refresh}, "invalid_grant"),
            (raw_jwt({"alg": "none"}, claims(mine["id_token"])), {}, "invalid_grant"),
            (mine["id_token"], {"audience": "https://other.example"}, "invalid_target"),
            (mine["id_token"], {"audience": f"{chain.api.auth}/"}, "invalid_target"),
            (mine["id_token"], {"audience": ""}, "invalid_request"),
            (mine["id_token"], {"resource": "urn:x"}, "invalid_target"),
            (mine["id_token"], {"actor_token": "x"}, "invalid_request"),
            (mine["id_token"], {"requested_token_type": ID_TOKEN}, "invalid_request"),
        ):
            chain.ask(token, **parameters).refused(400, code)
        # The client could have made this one itself, about anybody.
        chain.ask(shared, "hmac").refused(400, "invalid_grant")
        chain.ask(mine["id_token"], "web1").refused(400, "unauthorized_client")
    chain.idp.token("agent", path="/oauth/revoke", token=mine["refresh_token"]).ok()
    chain.idp.token("agent", path="/oauth/revoke", token=plain["refresh_token"]).ok()


def test_disabled_users_disabled_clients_and_ended_grants_get_no_token(chain: Chain) -> None:
    idp, api = chain.idp.servers.settings, chain.api.servers.settings
    tokens = chain.idp.tokens("agent", scope="openid notes:read")
    token, assertion = tokens["id_token"], chain.forge()
    run_operation(api, DISABLE_USER, uid=chain.alice(chain.api))
    chain.present(assertion).refused(400, "invalid_grant")
    run_operation(api, ENABLE_USER, uid=chain.alice(chain.api))
    run_operation(api, DISABLE, client_id="agent-here")
    chain.present(assertion).refused(401, "invalid_client")
    run_operation(api, ENABLE, client_id="agent-here")
    chain.present(assertion).ok()
    run_operation(idp, DISABLE, client_id="agent")
    chain.ask(token).refused(401, "invalid_client")
    run_operation(idp, ENABLE, client_id="agent")
    # What was issued before has ended, the ID token with it.
    chain.ask(token).refused(400, "invalid_grant")
    tokens = chain.idp.tokens("agent", scope="openid notes:read")
    run_operation(idp, DISABLE_USER, uid=chain.alice(chain.idp))
    refresh = {"subject_token_type": f"{TYPES}refresh_token"}
    chain.ask(tokens["id_token"]).refused(400, "invalid_grant")
    chain.ask(tokens["refresh_token"], **refresh).refused(400, "invalid_grant")
    run_operation(idp, ENABLE_USER, uid=chain.alice(chain.idp))
    tokens = chain.idp.tokens("agent", scope="openid notes:read")
    chain.ask(tokens["id_token"]).ok()
    chain.idp.servers.clock.forward(hours(2))
    chain.ask(tokens["id_token"]).refused(400, "invalid_grant")
    chain.ask(tokens["refresh_token"], **refresh).ok()


def test_unlinked_account_gets_no_token(chain: Chain) -> None:
    assertion = chain.forge({"sub": "bob-there"})
    chain.present(assertion).refused(400, "invalid_grant")
    chain.link(chain.rogue.url, "bob-there")
    chain.present(assertion).ok()
    uid = chain.alice(chain.api)
    chain.api.servers.write(lambda tx: Identities.of(tx).unlink(uid, chain.rogue.url, "bob-there"))
    chain.present(chain.forge({"sub": "bob-there"})).refused(400, "invalid_grant")


def test_account_with_a_second_factor_gets_no_token(chain: Chain) -> None:
    uid = chain.alice(chain.api)
    insert = (
        "INSERT INTO credentials (id, uid, kind, data, created_at)"
        " VALUES ('cr', :uid, 'totp', '', 0)"
    )
    chain.api.servers.write(lambda tx: tx.db.run(insert, uid=uid))
    assertion = chain.forge()
    chain.present(assertion).refused(400, "invalid_grant")
    chain.api.servers.write(lambda tx: tx.credentials.remove_authenticator(uid))
    now = chain.api.servers.clock.now()
    chain.api.servers.write(lambda tx: tx.users.require_factor(uid, now))
    chain.present(assertion).refused(400, "invalid_grant")
    chain.api.servers.write(lambda tx: tx.users.waive_factor(uid))
    chain.present(assertion).ok()


def test_unknown_key_ids_cause_few_requests_to_their_issuer(chain: Chain) -> None:
    request_count = len(chain.rogue.asked)
    for number in range(20):
        header = {"alg": "ES256", "typ": TYP, "kid": f"key{number}"}
        wrong = raw_jwt(header, claims(chain.forge()), b"x" * 64)
        chain.present(wrong).refused(400, "invalid_grant")
    # Newer keys at most every 10 seconds of the test's time; the metadata may be due as well.
    assert len(chain.rogue.asked) - request_count <= 8


def test_feature_is_off_by_default(world: LiveServers) -> None:
    metadata = requests.get(world.auth + METADATA, timeout=CEILING).json()
    assert not [name for name in metadata if "chaining" in name or "profiles" in name]
    kinds = (*CODE_GRANT, EXCHANGE, JWT_BEARER)
    world.client("both", grant_types=kinds, openid=idp_openid("https://a.example both"))
    parameters = {
        "subject_token": "x.y.z",
        "subject_token_type": ID_TOKEN,
        "audience": "https://a.example",
    }
    with world.nothing_changes():
        answer = world.token("both", grant_type=EXCHANGE, requested_token_type=ID_JAG, **parameters)
        answer.refused(400, "invalid_request")
        forged = jwt.sign({"iss": world.auth, "aud": world.auth}, world.key, typ=TYP)
        answer = world.token("both", grant_type=JWT_BEARER, assertion=forged)
        answer.refused(400, "invalid_grant")


@pytest.mark.parametrize(
    "audience",
    [
        "https://a.example",
        "a.example both",
        "http://a.example both",
        "https://a.example both a  b",
        " https://a.example both",
    ],
)
def test_malformed_audience_is_not_registered(world: LiveServers, audience: str) -> None:
    with pytest.raises(ValueError, match="assertion_audiences"):
        world.client("malformed", openid=idp_openid(audience))


def test_client_with_pairwise_subjects_gets_no_assertions(world: LiveServers) -> None:
    openid = replace(idp_openid("https://a.example both"), subject_type="pairwise")
    with pytest.raises(ValueError, match="public subjects"):
        world.client("pairwise-both", openid=openid)
