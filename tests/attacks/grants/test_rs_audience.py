"""RS: `audience` in place of `resource`, where the setting permits it; and beside it."""

from collections.abc import Iterator

import pytest

from tests.attacks.grants.several_apis import CALENDAR, DEVICE_CODE, FILES, TOOL, Apis, claims
from tests.support.live import CALLBACK, CODE_GRANT, Answer, live_servers
from valetkey.config.settings import Settings, TokenSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwt import sign

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    directory, algorithms = tmp_path_factory.mktemp("audience"), tuple(Algorithm)[:2]
    with live_servers(
        directory,
        algorithms=algorithms,
        settings=Settings(tokens=TokenSettings(audience_parameter=True)),
    ) as world:
        all_apis = Apis(world)
        world.client("tv1", scopes=("openid",), grant_types=(DEVICE_CODE, *CODE_GRANT))
        world.client(
            "swap1",
            grant_types=(EXCHANGE,),
            redirect_uris=(),
            scopes=(),
            exchanges_tokens_of=("web1",),
        )
        yield all_apis


def _audience(answer: dict[str, str]) -> object:
    return claims(answer["access_token"])["aud"]


def test_audience_names_the_api_at_authorize_token_and_refresh(apis: Apis) -> None:
    code = apis.ask((), "calendar:read", audience=CALENDAR.identifier)
    tokens = apis.world.exchange(code, audience=CALENDAR.identifier).json
    assert _audience(tokens) == CALENDAR.identifier
    for parameters in ({"audience": f"{TOOL.identifier}"}, {"audience": apis.world.api}):
        answer = apis.world.refresh(tokens["refresh_token"], **parameters)
        answer.refused(400, "invalid_target")
    again = apis.world.refresh(tokens["refresh_token"], audience=CALENDAR.identifier)
    assert _audience(again.json) == CALENDAR.identifier
    own = apis.world.token(
        "bot1", grant_type="client_credentials", audience=CALENDAR.identifier, scope="calendar:sync"
    )
    assert _audience(own.json) == CALENDAR.identifier


def test_both_parameters_must_name_one_api(apis: Apis) -> None:
    one, other = CALENDAR.identifier, FILES.identifier
    assert apis.ask((other,), "files:read", audience=f"{other}/").startswith("vk_ac_")
    with apis.world.nothing_changes():
        for resources, audience in (
            ((one,), other),
            ((other,), one),
            ((one, other), one),
            ((one,), f"{one}/"),
            ((), f"{one} {other}"),
            ((), "https://unknown.example"),
            ((f"{one} {other}",), f"{one} {other}"),
        ):
            refused = apis.ask(resources, "calendar:read", audience=audience)
            assert refused == "invalid_target", (resources, audience)
            machine = {"resource": " ".join(resources), "audience": audience}
            answer = apis.world.token("bot1", grant_type="client_credentials", **machine)
            answer.refused(400, "invalid_target")
            device = apis.world.token("tv1", path="/oauth/device-authorization", **machine)
            assert device.json["error"] == "invalid_target", machine


def test_request_object_audience_other_than_resource_is_invalid_target(apis: Apis) -> None:
    def ask(resource: str, **members: str) -> str:
        inside = {
            "iss": "pk1",
            "aud": apis.world.auth,
            "exp": apis.world.servers.clock.now() + 60,
            "client_id": "pk1",
            "response_type": "code",
            "redirect_uri": CALLBACK,
            **members,
        }
        request = sign(inside, apis.world.key, typ="")
        return apis.ask((resource,), "calendar:read", client_id="pk1", request=request)

    assert ask(CALENDAR.identifier, audience=FILES.identifier) == "invalid_target"
    assert ask(FILES.identifier, audience=CALENDAR.identifier) == "invalid_target"
    assert ask(CALENDAR.identifier, audience=CALENDAR.identifier).startswith("vk_ac_")


def test_device_and_its_polls_name_the_api_by_audience(apis: Apis) -> None:
    world, form = apis.world, {"scope": "calendar:read"}
    begun = world.token(
        "tv1", path="/oauth/device-authorization", audience=CALENDAR.identifier, **form
    )
    begun.ok()
    poll = {"grant_type": DEVICE_CODE, "device_code": begun.json["device_code"]}
    world.token("tv1", audience=TOOL.identifier, **poll).refused(400, "invalid_target")
    waiting = world.token("tv1", audience=CALENDAR.identifier, **poll)
    assert waiting.json["error"] == "authorization_pending"


def test_exchange_with_two_different_apis_is_invalid_target(apis: Apis) -> None:
    token = apis.tokens((CALENDAR.identifier,), "calendar:read")["access_token"]
    subject = {"subject_token": token, "subject_token_type": ACCESS_TOKEN}

    def exchange(audience: str) -> Answer:
        target = {"resource": CALENDAR.identifier, "audience": audience}
        return apis.world.token("swap1", grant_type=EXCHANGE, **subject, **target)

    exchange(CALENDAR.identifier).ok()
    exchange(TOOL.identifier).refused(400, "invalid_target")
