"""RS: an API for members of groups, asked for by users who are in none of them."""

from collections.abc import Iterator

import pytest

from tests.attacks.grants.several_apis import CALENDAR, FILES, Apis
from tests.support.live import live_servers
from valetkey.kernel.jose.algorithm import Algorithm


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    with live_servers(tmp_path_factory.mktemp("apis"), algorithms=tuple(Algorithm)[:2]) as world:
        yield Apis(world)


def test_rs_20_authorization_and_refresh_end_for_users_outside_the_groups(apis: Apis) -> None:
    code = apis.ask((CALENDAR.identifier,), "calendar:read")
    tokens = apis.tokens(
        (CALENDAR.identifier, FILES.identifier),
        "calendar:read files:read",
        resource=CALENDAR.identifier,
    )
    apis.change(CALENDAR.identifier, required_groups=("staff",))
    for resources in ((CALENDAR.identifier,), (FILES.identifier, CALENDAR.identifier)):
        assert apis.ask(resources, "calendar:read") == "access_denied"
    for response_type in ("token", "code token"):
        assert apis.ask((CALENDAR.identifier,), "calendar:read", response_type=response_type) in {
            "access_denied",
            "unsupported_response_type",
            "unauthorized_client",
        }
    refused = apis.world.exchange(code)
    assert (refused.status, refused.json["error"]) == (400, "invalid_grant")
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    refused = apis.world.token("web1", **form, resource=CALENDAR.identifier)
    assert (refused.status, refused.json["error"]) == (400, "invalid_grant")
    assert apis.world.token("web1", **form, resource=FILES.identifier).status == 200
    own = apis.world.token("bot1", grant_type="client_credentials", resource=CALENDAR.identifier)
    assert own.status == 200, own.json
