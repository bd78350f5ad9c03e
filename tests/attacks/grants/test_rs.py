"""RS: several APIs behind one server, and everything of one presented at another (RFC 8707)."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
import requests

from tests.attacks.grants.several_apis import CALENDAR, DEVICE_CODE, FILES, SIGNS_RSA, Apis, claims
from tests.support.live import CALLBACK, PASSWORD, Answer, live_servers, secret_of
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.model.api import ApiMetadata
from valetkey.authorization.protocol.resource import MOST
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    with live_servers(tmp_path_factory.mktemp("apis"), algorithms=tuple(Algorithm)[:2]) as world:
        yield Apis(world)


def _header(token: str) -> dict[str, object]:
    return claims("." + token)


def _refused(answer: Answer, code: str) -> None:
    assert answer.status == 400, answer.json
    assert answer.json["error"] == code


def test_rs_01_token_has_audience_lifetime_and_scope_of_its_api(apis: Apis) -> None:
    tokens = apis.tokens((CALENDAR.identifier,), "calendar:read")
    token_claims = claims(tokens["access_token"])
    assert token_claims["aud"] == CALENDAR.identifier
    assert token_claims["scope"] == tokens["scope"] == "calendar:read"
    assert str(tokens["expires_in"]) == "600"
    assert not apis.inspect(tokens["access_token"], FILES.identifier)["active"]
    assert apis.inspect(tokens["access_token"], CALENDAR.identifier)["scope"] == "calendar:read"
    refused = apis.world.call(tokens["access_token"])
    assert refused.status == 401


def test_rs_02_reference_token_is_unknown_to_other_apis(apis: Apis) -> None:
    tokens = apis.tokens((f"{FILES.identifier}/",), "files:read")
    token = tokens["access_token"]
    assert "." not in token
    assert apis.inspect(token, FILES.identifier)["aud"] == FILES.identifier
    assert apis.inspect(token, CALENDAR.identifier) == {"active": False}
    own = apis.world.servers.settings.source.directory / "valetkey/resource-server.credential"
    form = {
        "token": token,
        "client_id": "resource-server",
        "client_secret": own.read_text().strip(),
    }
    assert apis.world.post("/oauth/introspect", form).response.content == b'{"active":false}'
    assert apis.world.call(token).status == 401
    assert apis.world.introspect(token)["active"], "its client may know it"


@pytest.mark.parametrize(
    "resource",
    [
        "https://unknown.example",
        "https://mcp.example.com/mcp/",
        "https://mcp.example.com/MCP",
        "https://mcp.example.com",
        "https://mcp.example.com/mcp#x",
        "https://files.example.com//",
        "https://files.example.com https://mcp.example.com/mcp",
        "mcp",
    ],
)
def test_rs_03_unknown_or_inexact_resource_is_an_invalid_target(apis: Apis, resource: str) -> None:
    assert apis.ask((resource,), "calendar:read") == "invalid_target"
    answer = apis.world.token("bot1", grant_type="client_credentials", resource=resource)
    _refused(answer, "invalid_target")


def test_rs_03_a_request_names_ten_apis_at_most(apis: Apis) -> None:
    several = tuple(f"https://z{number}.example" for number in range(MOST + 1))
    for identifier in several:
        apis.declare(ApiMetadata(identifier, identifier.removeprefix("https://")))
    assert apis.ask(several, "") == "invalid_target"
    assert apis.world.exchange(apis.ask(several[1:], "")).status == 200
    again = (CALENDAR.identifier,) * (MOST + 1)
    assert apis.world.exchange(apis.ask(again, "calendar:read")).status == 200
    apis.client("tv1", (DEVICE_CODE,), ())
    form = {"client_id": "tv1", "client_secret": secret_of("tv1")}
    for named, error in ((several, "invalid_target"), (again, None)):
        body = urlencode([*form.items(), *(("resource", resource) for resource in named)])
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = apis.world.post("/oauth/device-authorization", body, headers=headers)
        assert answer.json.get("error") == error


def test_rs_04_decision_record_lists_existing_apis(apis: Apis) -> None:
    answer = apis.world.token("bot1", grant_type="client_credentials", resource="https://x.example")
    _refused(answer, "invalid_target")
    reference = answer.json["reference"]

    def look(tx: Transaction) -> object:
        return tx.decisions.find(reference)

    record = wait_until(lambda: apis.world.servers.write(look))
    assert CALENDAR.identifier in str(record)


def test_rs_03_audience_is_ignored_unless_the_setting_is_on(apis: Apis) -> None:
    for resources, scope, aud in (
        ((), "notes:read", apis.world.api),
        ((CALENDAR.identifier,), "calendar:read", CALENDAR.identifier),
    ):
        code = apis.ask(resources, scope, audience=FILES.identifier)
        tokens = apis.world.exchange(code, audience=FILES.identifier).json
        assert claims(tokens["access_token"])["aud"] == aud


def test_rs_05_client_outside_the_list_is_refused_everywhere(apis: Apis) -> None:
    assert apis.ask((FILES.identifier,), "files:read", client_id="web2") == "invalid_target"
    tokens = apis.tokens((FILES.identifier,), "files:read")
    apis.change(FILES.identifier, clients=frozenset(("spa1",)))
    try:
        _refused(apis.world.refresh(tokens["refresh_token"]), "invalid_target")
    finally:
        apis.change(FILES.identifier, clients=FILES.clients)
    apis.world.refresh(tokens["refresh_token"]).ok()


def test_rs_06_refresh_selects_one_of_the_granted_apis(apis: Apis) -> None:
    both = (CALENDAR.identifier, FILES.identifier)
    tokens = apis.tokens(both, "calendar:read files:read", resource=FILES.identifier)
    assert tokens["scope"] == "files:read"
    refresh = tokens["refresh_token"]
    other = apis.world.refresh(refresh, resource=CALENDAR.identifier)
    other.ok()
    assert claims(other.json["access_token"])["aud"] == CALENDAR.identifier
    assert other.json["scope"] == "calendar:read"
    wider = apis.world.refresh(refresh, resource=CALENDAR.identifier, scope="files:read")
    _refused(wider, "invalid_scope")
    _refused(apis.world.refresh(refresh, resource=apis.world.api), "invalid_target")
    twice = urlencode(
        [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh),
            ("client_id", "web1"),
            ("client_secret", secret_of("web1")),
            *(("resource", resource) for resource in both),
        ]
    )
    form = {"content-type": "application/x-www-form-urlencoded"}
    _refused(apis.world.post("/oauth/token", twice, headers=form), "invalid_target")


def test_rs_07_grant_for_one_api_gives_no_token_for_another(apis: Apis) -> None:
    code = apis.ask((CALENDAR.identifier,), "calendar:read")
    _refused(apis.world.exchange(code, resource=FILES.identifier), "invalid_target")
    default = apis.tokens((), "notes:read")
    for resource in (CALENDAR.identifier, FILES.identifier):
        _refused(apis.world.refresh(default["refresh_token"], resource=resource), "invalid_target")
    assert apis.ask((), "calendar:read") == "invalid_scope"
    assert apis.ask((CALENDAR.identifier,), "calendar:read notes:read") == "invalid_scope"
    assert apis.ask((CALENDAR.identifier,), "calendar:sync") == "invalid_scope"
    for name in ("#", "api_Calendar#", "api_Calendar#calendar:read", "calendar:read #"):
        assert apis.ask((CALENDAR.identifier,), name) == "invalid_scope"


def test_rs_08_consent_to_a_shared_scope_name_covers_one_api_only(apis: Apis) -> None:
    apis.tokens((CALENDAR.identifier,), "shared")
    query = f"client_id=web1&response_type=code&redirect_uri={CALLBACK}&scope=shared&prompt=none"
    person = UserAgent(apis.world.auth)
    person.sign_in(
        person.open(
            f"{apis.world.auth}/oauth/authorize?{query}".replace("&prompt=none", "")
            + f"&resource={FILES.identifier}"
        ),
        "alice",
        PASSWORD,
    )
    at = f"{apis.world.auth}/oauth/authorize?{query}&resource="
    assert "code" in person.open(at + CALENDAR.identifier).redirect_parameters
    assert person.open(at + FILES.identifier).redirect_parameters["error"] == "consent_required"


def test_rs_09_client_credentials_have_registered_machine_scopes_only(apis: Apis) -> None:
    own = {"grant_type": "client_credentials", "resource": CALENDAR.identifier}
    answer = apis.world.token("bot1", **own)
    answer.ok()
    assert answer.json["scope"] == "calendar:sync"
    token = answer.json["access_token"]
    assert apis.inspect(token, CALENDAR.identifier)["active"]
    assert apis.inspect(token, FILES.identifier) == {"active": False}
    _refused(apis.world.token("bot1", **own, scope="calendar:read"), "invalid_scope")
    _refused(apis.world.token("svc1", **own), "invalid_scope")
    _refused(
        apis.world.token("bot1", grant_type="client_credentials", scope="calendar:sync"),
        "invalid_scope",
    )


def test_rs_09_machine_scopes_are_not_for_users_of_a_device(apis: Apis) -> None:
    apis.client("tv-bot", (DEVICE_CODE, "client_credentials"), ("calendar:sync", "notes:read"))
    at = {"path": "/oauth/device-authorization"}
    _refused(apis.world.token("tv-bot", **at, scope="calendar:sync"), "invalid_scope")
    begun = apis.world.token("tv-bot", **at).json
    person = UserAgent(apis.world.auth)
    page = person.open(begun["verification_uri_complete"])
    page = person.sign_in(page, "alice", PASSWORD)
    page = person.submit(page, "allow", boxes=("yes", "notes:read", "calendar:sync"))
    assert "Device connected" in page.text
    polled = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"]}
    answer = apis.world.token("tv-bot", **polled)
    answer.ok()
    assert answer.json["scope"] == "notes:read"


def test_rs_token_signed_with_the_apis_algorithm_is_read_and_revoked(apis: Apis) -> None:
    token = apis.tokens((SIGNS_RSA.identifier,), "rsa:read")
    assert _header(token["access_token"])["alg"] == SIGNS_RSA.signing_algorithm
    assert apis.inspect(token["access_token"], SIGNS_RSA.identifier)["scope"] == "rsa:read"
    assert apis.world.introspect(token["refresh_token"])["scope"] == "rsa:read"
    apis.world.token(path="/oauth/revoke", token=token["access_token"]).ok()
    assert apis.inspect(token["access_token"], SIGNS_RSA.identifier) == {"active": False}


def test_rs_10_openid_scopes_are_granted_but_userinfo_refuses_the_api_token(apis: Apis) -> None:
    apis.world.client("oidc1", scopes=("openid", "profile", "notes:read"))
    code = apis.ask((CALENDAR.identifier,), "openid profile calendar:read", client_id="oidc1")
    answer = apis.world.exchange(code, "oidc1")
    answer.ok()
    assert claims(answer.json["id_token"])["aud"] == "oidc1"
    userinfo = apis.world.post(
        "/oauth/userinfo", headers={"authorization": f"Bearer {answer.json['access_token']}"}
    )
    assert userinfo.status == 401


def test_rs_11_disabling_an_api_ends_its_tokens_and_enabling_restores_none(apis: Apis) -> None:
    both = (CALENDAR.identifier, FILES.identifier)
    alone = apis.tokens((CALENDAR.identifier,), "calendar:read")
    mixed = apis.tokens(both, "calendar:read files:read")
    own = apis.world.token(
        "bot1", grant_type="client_credentials", resource=CALENDAR.identifier
    ).json["access_token"]
    code = apis.ask((CALENDAR.identifier,), "calendar:read")
    apis.switch(CALENDAR.identifier, on=False)
    assert apis.ask((CALENDAR.identifier,), "calendar:read") == "invalid_target"
    closed = apis.world.token(apis.ids[CALENDAR.identifier], path="/oauth/introspect", token=own)
    assert closed.status == 401
    apis.switch(CALENDAR.identifier, on=True)
    for token in (own, alone["access_token"], mixed["access_token"]):
        assert apis.inspect(token, CALENDAR.identifier) == {"active": False}
    _refused(apis.world.exchange(code), "invalid_target")
    _refused(apis.world.refresh(alone["refresh_token"]), "invalid_grant")
    _refused(
        apis.world.refresh(mixed["refresh_token"], resource=CALENDAR.identifier), "invalid_target"
    )
    left = apis.world.refresh(mixed["refresh_token"])
    left.ok()
    assert left.json["scope"] == "files:read"
    apis.world.servers.clock.forward(1)  # type: ignore[arg-type]
    again = apis.tokens((CALENDAR.identifier,), "calendar:read")
    assert apis.inspect(again["access_token"], CALENDAR.identifier)["active"]


def test_rs_12_scope_names_belong_to_one_api_unless_both_share(apis: Apis) -> None:
    registrar, now = apis.registrar, apis.world.servers.clock.now()

    def faults(**changes: object) -> list[str]:
        metadata = replace(CALENDAR, **{"identifier": "https://third.example/x", **changes})  # type: ignore[arg-type]

        def work(tx: Transaction) -> object:
            made = registrar.register(tx, metadata, now, api_id="api_third")
            if not isinstance(made, tuple):
                raise AssertionError(made)
            return made

        return [fault.field for fault in apis.world.servers.write(work)]  # type: ignore[attr-defined]

    assert (
        faults(shares_scopes=False, scopes={"shared": "x"}, machine_scopes=())
        == ["scopes/shared"] * 2
    )
    assert faults(scopes={"read": "x"}, machine_scopes=()) == ["scopes/read"]
    assert faults(scopes={"openid": "x"}, machine_scopes=()) == ["scopes/openid"]
    assert faults(scopes={"a#b": "x"}, machine_scopes=()) == ["scopes/a#b"]
    assert faults(scopes={}, machine_scopes=(), name="") == ["name"]
    bare = {"scopes": dict[str, str](), "machine_scopes": ()}
    taken = (CALENDAR.identifier, f"{FILES.identifier}/", apis.world.api, "http://x.example")
    for identifier in taken:
        assert faults(**bare, identifier=identifier) == ["identifier"]


def test_rs_13_feed_of_an_api_has_its_own_revocations_only(apis: Apis) -> None:
    def heard(client_id: str, secret: str) -> set[tuple[str, str]]:
        answer = requests.get(
            f"{apis.world.auth}/oauth/revocations", auth=(client_id, secret), timeout=CEILING
        )
        assert answer.status_code == 200, answer.text
        return {
            (revocation["kind"], revocation["id"]) for revocation in answer.json()["revocations"]
        }

    def of(metadata: ApiMetadata) -> set[tuple[str, str]]:
        api_id = apis.ids[metadata.identifier]
        return heard(api_id, secret_of(api_id))

    calendar = apis.tokens((CALENDAR.identifier,), "calendar:read")
    files = apis.tokens((FILES.identifier,), "files:read")
    both = apis.tokens((CALENDAR.identifier, FILES.identifier), "calendar:read files:read")
    default = apis.tokens((), "notes:read")
    token = str(claims(calendar["access_token"])["jti"])
    families = [tokens["refresh_token"].partition(".")[2] for tokens in (files, both, default)]
    apis.world.token(path="/oauth/revoke", token=calendar["access_token"])
    for tokens in (files, both, default):
        apis.world.token(path="/oauth/revoke", token=tokens["refresh_token"])
    first, second, third = (("grant", family) for family in families)
    assert {("token", token), second} <= of(CALENDAR)
    assert not of(CALENDAR) & {first, third}
    assert {first, second} <= of(FILES)
    assert not of(FILES) & {("token", token), third}
    own = apis.world.servers.settings.source.directory / "valetkey/resource-server.credential"
    everything = heard("resource-server", own.read_text().strip())
    assert third in everything
    assert "api" not in {kind for kind, _ in everything}
    refused = requests.get(
        f"{apis.world.auth}/oauth/revocations", auth=("web1", secret_of("web1")), timeout=CEILING
    )
    assert refused.status_code == 401
