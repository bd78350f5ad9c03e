"""Device codes and passwords: claims above 8 KiB, and an API for members of groups only."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.attacks.grants.several_apis import CALENDAR, DEVICE_CODE, Apis
from tests.conftest import ENGINES
from tests.support import postgres
from tests.support.live import PASSWORD, Answer, live_servers
from valetkey.authorization.claims.model import Declarations, DeclaredClaim
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.model.user import Group
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import seconds
from valetkey.testing.browser import UserAgent

_CLAIMS = tuple(
    DeclaredClaim(f"c{number}", f"constant:{'x' * 1_000}", (ClaimLocation.ACCESS_TOKEN,))
    for number in range(9)
)


@pytest.fixture(scope="module", params=ENGINES)
def apis(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Apis]:
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database()) if request.param == "postgres" else ""
        folder = tmp_path_factory.mktemp("large")
        two = tuple(Algorithm)[:2]
        world = stack.enter_context(live_servers(folder, url, resource=False, algorithms=two))
        world.client(
            "tv1",
            secret=None,
            type="public",
            redirect_uris=(),
            grant_types=(DEVICE_CODE, "refresh_token"),
        )
        world.client("own1", profile="classic", redirect_uris=(), grant_types=("password",))
        yield Apis(world)


def _waiting(apis: Apis) -> dict[str, str]:
    """Return a device code for the calendar that alice has allowed, and that nobody polled."""
    world = apis.world
    form = {"client_id": "tv1", "scope": "calendar:read", "resource": CALENDAR.identifier}
    answer = world.post("/oauth/device-authorization", form)
    answer.ok()
    person = UserAgent(world.auth)
    page = person.sign_in(person.open(f"{world.auth}/device"), "alice", PASSWORD)
    page = person.submit(page, "continue", {"user_code": answer.json["user_code"]})
    shown = person.submit(
        page, "allow", boxes=("yes", f"{apis.ids[CALENDAR.identifier]}#calendar:read")
    )
    assert "Device connected" in shown.text, shown.text
    response: dict[str, str] = answer.json
    return response


def _poll(apis: Apis, begun: dict[str, str]) -> Answer:
    apis.world.servers.clock.forward(seconds(6))
    form = {"grant_type": DEVICE_CODE, "client_id": "tv1", "device_code": begun["device_code"]}
    return apis.world.post("/oauth/token", form)


def _by_password(apis: Apis) -> Answer:
    who = {"username": "alice", "password": PASSWORD}
    parameters = {"scope": "calendar:read", "resource": CALENDAR.identifier}
    return apis.world.token("own1", grant_type="password", **who, **parameters)


@contextmanager
def _larger(apis: Apis) -> Generator[None]:
    """Declare claims of 9 KiB while this lasts."""
    now = apis.world.servers.clock.now()

    def declare(tx: Transaction) -> None:
        Declarations.of(tx).hold_all()
        for claim in _CLAIMS:
            Declarations.of(tx).save_claim(claim, now)

    def remove(tx: Transaction) -> None:
        Declarations.of(tx).hold_all()
        for claim in _CLAIMS:
            assert Declarations.of(tx).remove_claim(claim.name)

    apis.world.servers.write(declare)
    try:
        yield
    finally:
        apis.world.servers.write(remove)


def test_claims_above_eight_kibibytes_are_refused_and_spend_no_device_code(apis: Apis) -> None:
    begun = _waiting(apis)
    with _larger(apis), apis.world.nothing_changes():
        _poll(apis, begun).refused(400, "invalid_request")
        _by_password(apis).refused(400, "invalid_request")
    _poll(apis, begun).ok()
    _by_password(apis).ok()


def test_users_outside_the_groups_of_an_api_get_no_token(apis: Apis) -> None:
    begun = _waiting(apis)
    apis.change(CALENDAR.identifier, required_groups=("staff",))
    try:
        with apis.world.nothing_changes():
            _poll(apis, begun).refused(400, "invalid_grant")
            _by_password(apis).refused(400, "invalid_grant")
        _make_member(apis)
        _poll(apis, begun).ok()
        _by_password(apis).ok()
    finally:
        apis.change(CALENDAR.identifier, required_groups=())


def _make_member(apis: Apis) -> None:
    now = apis.world.servers.clock.now()

    def work(tx: Transaction) -> bool:
        user = tx.users.find_by_name("alice")
        assert user is not None
        staff = Group("grp_staff", "staff", "", "", now)
        return tx.groups.create(staff, "") and tx.groups.add(staff, user.uid, now)

    assert apis.world.servers.write(work)
