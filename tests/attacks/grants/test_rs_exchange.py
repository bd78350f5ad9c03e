"""RS, TX: a token of one API is exchanged for another: by whom, for which, and how wide."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.attacks.grants.several_apis import CALENDAR, FILES, SIGNS_RSA, TOOL, Apis, claims
from tests.support.live import CALLBACK, CODE_GRANT, PASSWORD, Answer, live_servers
from valetkey.authorization.model.api import ApiMetadata
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.testing.browser import UserAgent

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    """app1 calls Calendar; its service calendar1 calls others, and tool1 is Tool's."""
    with live_servers(tmp_path_factory.mktemp("switch"), algorithms=tuple(Algorithm)[:2]) as world:
        all_apis = Apis(world)
        own = (EXCHANGE, "client_credentials")
        world.client("app1", scopes=("openid", "email", "notes:read"), grant_types=CODE_GRANT)
        world.client(
            "calendar1",
            grant_types=own,
            redirect_uris=(),
            scopes=("notes:read",),
            exchanges_tokens_of=("app1", "tool1"),
            exchanges_for=(f"{TOOL.identifier}", SIGNS_RSA.identifier, f"{world.api}/"),
        )
        world.client(
            "tool1",
            grant_types=own,
            redirect_uris=(),
            scopes=("email",),
            exchanges_tokens_of=("app1", "calendar1"),
            exchanges_for=(CALENDAR.identifier, FILES.identifier, "https://x.example"),
        )
        yield all_apis


def _tokens(
    apis: Apis, scope: str, *named: ApiMetadata | str, client_id: str = "app1", **parameters: str
) -> dict[str, str]:
    """What the app gets for these APIs, all of which alice allows."""
    query = [
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", CALLBACK),
        ("scope", scope),
        *(("resource", api if isinstance(api, str) else api.identifier) for api in named),
    ]
    person = UserAgent(apis.world.auth)
    page = person.open(f"{apis.world.auth}/oauth/authorize?{urlencode(query)}")
    page = person.sign_in(page, "alice", PASSWORD)
    code = (page if page.location else person.allow(page)).redirect_parameters["code"]
    answer = apis.world.exchange(code, client_id, **parameters)
    answer.ok()
    return answer.json


def _exchange(apis: Apis, token: str, client_id: str = "calendar1", **parameters: str) -> Answer:
    form = {"subject_token": token, "subject_token_type": ACCESS_TOKEN, **parameters}
    return apis.world.token(client_id, grant_type=EXCHANGE, **form)


def test_service_of_one_api_calls_another_that_the_user_allowed(apis: Apis) -> None:
    first = _tokens(apis, "openid email calendar:read rsa:read", CALENDAR, TOOL, SIGNS_RSA)
    token, before = first["access_token"], claims(first["access_token"])
    own = apis.world.token("calendar1", grant_type="client_credentials").json["access_token"]
    actor = {"actor_token": own, "actor_token_type": ACCESS_TOKEN}
    answer = _exchange(apis, token, resource=SIGNS_RSA.identifier, **actor)
    answer.ok()
    token_claims = claims(answer.json["access_token"])
    assert (token_claims["aud"], token_claims["scope"]) == (SIGNS_RSA.identifier, "rsa:read")
    assert (token_claims["client_id"], token_claims["sub"]) == ("calendar1", before["sub"])
    assert token_claims["act"] == {"sub": "calendar1"}
    assert int(str(token_claims["exp"])) <= int(str(before["exp"]))
    assert apis.inspect(answer.json["access_token"], SIGNS_RSA.identifier)["active"]
    assert apis.inspect(answer.json["access_token"], CALENDAR.identifier) == {"active": False}
    # By the name of RFC 8693; an API without scopes has none in its tokens.
    other = _exchange(apis, token, audience=TOOL.identifier)
    assert "scope" not in other.json
    assert claims(other.json["access_token"])["aud"] == TOOL.identifier
    apis.world.token("app1", path="/oauth/revoke", token=first["refresh_token"]).ok()
    for response in (answer, other):
        assert not apis.world.introspect(response.json["access_token"], "calendar1")["active"]


def test_exchange_requires_permission_of_user_client_and_api(apis: Apis) -> None:
    person_saw = _tokens(apis, "openid calendar:read", CALENDAR, SIGNS_RSA)["access_token"]
    saw_one = _tokens(apis, "openid calendar:read", CALENDAR)["access_token"]
    with apis.world.nothing_changes():
        for token, client_id, resource in (
            (saw_one, "calendar1", SIGNS_RSA.identifier),  # its user did not
            (saw_one, "calendar1", TOOL.identifier),
            (saw_one, "calendar1", apis.world.api),
            (person_saw, "tool1", SIGNS_RSA.identifier),  # its registration does not
            (saw_one, "calendar1", FILES.identifier),  # the API does not
            (saw_one, "tool1", FILES.identifier),
            (saw_one, "tool1", "https://x.example"),
        ):
            answer = _exchange(apis, token, client_id, resource=resource)
            answer.refused(400, "invalid_target")
        two = _exchange(apis, person_saw, resource=TOOL.identifier, audience=CALENDAR.identifier)
        two.refused(400, "invalid_target")
        for scope in ("calendar:read", "rsa:sync", "openid", "email", "notes:read"):
            answer = _exchange(apis, person_saw, resource=SIGNS_RSA.identifier, scope=scope)
            answer.refused(400, "invalid_scope")


def test_repeated_exchange_does_not_widen_the_scope(apis: Apis) -> None:
    scope = "openid email notes:read calendar:read shared"
    first = _tokens(apis, scope, CALENDAR, TOOL, apis.world.api)
    narrow = apis.world.refresh(
        first["refresh_token"], "app1", scope="calendar:read", resource=CALENDAR.identifier
    ).json["access_token"]
    assert _exchange(apis, narrow, "tool1").json["scope"] == "calendar:read"
    there = _exchange(apis, narrow, resource=TOOL.identifier).json["access_token"]
    back = _exchange(apis, there, "tool1", resource=CALENDAR.identifier)
    back.refused(400, "invalid_request")
    # What is about the user stays as narrow as in the token presented.
    default = _exchange(apis, narrow, resource=apis.world.api)
    assert default.json["scope"] == "notes:read"


def test_app_cannot_exchange_its_own_token_for_another_api(apis: Apis) -> None:
    grants = (*CODE_GRANT, EXCHANGE)
    both = (CALENDAR.identifier, TOOL.identifier)
    apis.world.client("self1", scopes=("openid",), grant_types=grants, exchanges_for=both)
    token = _tokens(apis, "openid calendar:read", CALENDAR, TOOL, client_id="self1")["access_token"]
    there = _exchange(apis, token, "self1", resource=TOOL.identifier)
    there.refused(400, "invalid_request")
    _exchange(apis, token, "self1").ok()


def test_disabled_api_and_withdrawn_permission_end_the_exchange(apis: Apis) -> None:
    first = _tokens(apis, "openid calendar:read", CALENDAR, TOOL)["access_token"]
    switched = _exchange(apis, first, resource=TOOL.identifier).json["access_token"]
    for on in (False, True):
        apis.switch(TOOL.identifier, on=on)
        _exchange(apis, first, resource=TOOL.identifier).refused(400, "invalid_target")
        assert not apis.world.introspect(switched, "calendar1")["active"]
    apis.change(TOOL.identifier, clients=frozenset(("calendar1",)))
    _exchange(apis, first, resource=TOOL.identifier).refused(400, "invalid_target")
