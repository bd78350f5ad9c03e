"""DV: device codes and user codes: guessed, mixed up, raced, phished, outlived."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.conftest import ENGINES
from tests.support import postgres
from tests.support.live import CODE_GRANT, PASSWORD, Answer, LiveServers, live_servers
from tests.support.operations import run_operation
from valetkey.authorization.device.model import ALPHABET
from valetkey.authorization.device.settings import DeviceSettings
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.operations.client_state import DISABLE, ENABLE
from valetkey.authorization.operations.users import DISABLE_USER
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes, seconds
from valetkey.testing.browser import Page, UserAgent

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
CROWD = 64


@pytest.fixture(scope="module", params=ENGINES)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServers]:
    """One authorization server on each engine, with the televisions tv1 and tv2."""
    with ExitStack() as stack:
        url = stack.enter_context(postgres.database()) if request.param == "postgres" else ""
        folder = tmp_path_factory.mktemp("dv")
        world = stack.enter_context(live_servers(folder, url, resource=False))
        for name, groups in (("tv1", ()), ("tv2", ()), ("staff-tv", ("staff",))):
            world.servers.register_client(
                ClientMetadata(
                    name,
                    openid=OpenIdRegistration(required_groups=groups),
                    type="public",
                    grant_types=(DEVICE_CODE, "refresh_token"),
                    scopes=("openid", "notes:read", "notes:write"),
                ),
                name,
            )
        yield world


@pytest.fixture
def dv(server: LiveServers) -> Iterator[LiveServers]:
    """That server, after all limits and codes of the tests before have expired.

    Its clock only moves when a test moves it: on a busy machine the limits would leak meanwhile.
    """
    server.servers.clock.forward(minutes(11))
    with server.servers.clock.stopped():
        yield server


def _begin(world: LiveServers, client_id: str = "tv1", **parameters: str) -> dict[str, str]:
    answer = world.post("/oauth/device-authorization", {"client_id": client_id, **parameters})
    answer.ok()
    return answer.json


def _poll(
    world: LiveServers, begun: dict[str, str], client_id: str = "tv1", **parameters: str
) -> Answer:
    form = {"grant_type": DEVICE_CODE, "client_id": client_id, **parameters}
    form.setdefault("device_code", begun["device_code"])
    return world.post("/oauth/token", form)


def _enter(world: LiveServers, person: UserAgent, code: str, user: str = "alice") -> Page:
    page = person.open(f"{world.auth}/device")
    if "username" in page.body:
        page = person.sign_in(page, user, PASSWORD)
    return person.submit(page, "continue", {"user_code": code})


def _allow(person: UserAgent, page: Page, *scopes: str) -> Page:
    boxes: Sequence[str] = ("yes", *(scopes or ("notes:read", "notes:write")))
    return person.submit(page, "allow", boxes=boxes)


def _connect(world: LiveServers, begun: dict[str, str]) -> Page:
    person = UserAgent(world.auth)
    page = _allow(person, _enter(world, person, begun["user_code"]))
    assert "Device connected" in page.text
    return page


def test_dv_device_receives_a_token_after_consent(dv: LiveServers) -> None:
    begun = _begin(dv, scope="openid notes:read")
    assert re.fullmatch(f"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", begun["user_code"])
    assert begun["verification_uri"] == f"{dv.auth}/device"
    assert begun["verification_uri_complete"] == f"{dv.auth}/device/{begun['user_code']}"
    assert [str(begun[name]) for name in ("expires_in", "interval")] == ["600", "5"]
    _poll(dv, begun).refused(400, "authorization_pending")
    alice = UserAgent(dv.auth)
    page = _enter(dv, alice, begun["user_code"].replace("-", " ").lower())
    for shown in ("tv1", "read your notes", begun["user_code"], "127.0.0.1", "started this"):
        assert shown in page.text
    page = alice.submit(page, "allow")
    assert page.status == 400
    assert "Compare the code" in page.text
    page = _allow(alice, page, "notes:read")
    assert page.status == 200
    dv.servers.clock.forward(seconds(5))
    answer = _poll(dv, begun)
    answer.ok()
    assert {"access_token", "refresh_token", "id_token", "uid"} <= answer.json.keys()
    assert answer.json["scope"] == "openid notes:read"
    _poll(dv, begun).refused(400, "invalid_grant")
    refreshed = dv.post(
        "/oauth/token",
        {
            "grant_type": "refresh_token",
            "client_id": "tv1",
            "refresh_token": answer.json["refresh_token"],
        },
    )
    refreshed.ok()
    for name in ("device_code.issued", "device_code.allowed", "device_code.redeemed"):
        assert dv.events(name) > 0
    assert "tv1" in alice.open(f"{dv.auth}/account/apps").text


def test_dv_one_of_64_polls_gets_the_tokens(dv: LiveServers) -> None:
    begun = _begin(dv)
    _connect(dv, begun)
    with ThreadPoolExecutor(CROWD) as crowd:
        polls = [crowd.submit(_poll, dv, begun) for _ in range(CROWD)]
        answers = [poll.result() for poll in polls]
    won = [answer for answer in answers if answer.status == 200]
    assert len(won) == 1
    assert {answer.json["error"] for answer in answers if answer.status != 200} == {"invalid_grant"}
    # A device that lost the response loses no more than that.
    assert dv.introspect(won[0].json["access_token"], "web1")["active"] is False
    form = {"client_id": "tv1", "refresh_token": won[0].json["refresh_token"]}
    dv.post("/oauth/token", {"grant_type": "refresh_token", **form}).ok()


def test_dv_allow_deny_and_polls_race_to_one_outcome(dv: LiveServers) -> None:
    begun = _begin(dv)
    people = [UserAgent(dv.auth) for _ in range(4)]
    pages = [_enter(dv, person, begun["user_code"]) for person in people]

    def act(number: int) -> str:
        if number < len(people):
            button = "allow" if number % 2 else "deny"
            page = people[number].submit(
                pages[number], button, boxes=("yes", "notes:read", "notes:write")
            )
            return f"{button} {page.status}"
        dv.servers.clock.forward(seconds(1))
        return _poll(dv, begun).json.get("error", "tokens")

    with ThreadPoolExecutor(16) as crowd:
        outcomes = list(crowd.map(act, range(16)))
    assert len([outcome for outcome in outcomes if outcome.endswith(" 200")]) == 1
    last = _poll(dv, begun).json["error"] if "tokens" in outcomes else ""
    last = last or _poll(dv, begun).json.get("error", "tokens")
    allowed = "allow 200" in outcomes
    assert last in ({"tokens", "invalid_grant"} if allowed else {"access_denied"})
    assert outcomes.count("tokens") + (last == "tokens") == (1 if allowed else 0)


def test_dv_polling_too_soon_lengthens_the_interval_each_time(dv: LiveServers) -> None:
    begun = _begin(dv)
    _poll(dv, begun).refused(400, "authorization_pending")
    _poll(dv, begun).refused(400, "slow_down")
    dv.servers.clock.forward(seconds(5))
    _poll(dv, begun).refused(400, "slow_down")
    dv.servers.clock.forward(seconds(15))
    _poll(dv, begun).refused(400, "authorization_pending")
    dv.servers.clock.forward(seconds(10))
    _poll(dv, begun).refused(400, "slow_down")


def test_dv_denied_and_expired_codes_are_refused(dv: LiveServers) -> None:
    denied, late, never = _begin(dv), _begin(dv), _begin(dv)
    mallory = UserAgent(dv.auth)
    page = _enter(dv, mallory, denied["user_code"], "mallory")
    assert "has no access" in mallory.deny(page).text
    _poll(dv, denied).refused(400, "access_denied")
    assert mallory.submit(page, "allow", boxes=("yes", "notes:read")).status == 400
    _poll(dv, denied).refused(400, "access_denied")
    _connect(dv, late)
    alice = UserAgent(dv.auth)
    page = _enter(dv, alice, never["user_code"])
    dv.servers.clock.forward(minutes(10))
    for begun in (late, never):
        _poll(dv, begun).refused(400, "expired_token")
    assert "invalid" in _allow(alice, page).text
    assert "invalid" in _enter(dv, alice, never["user_code"]).text


@pytest.mark.parametrize(
    ("client_id", "said", "status", "code"),
    [
        ("tv2", {}, 400, "invalid_grant"),
        ("tv1", {"device_code": "vk_dc_x"}, 400, "invalid_grant"),
        ("tv1", {"device_code": "BCDF-GHJK"}, 400, "invalid_grant"),
        ("tv1", {"device_code": ""}, 400, "invalid_request"),
        ("tv1", {"resource": "https://other.example"}, 400, "invalid_target"),
        ("tv1", {"client_secret": "x"}, 401, "invalid_client"),
        ("nobody", {}, 401, "invalid_client"),
        ("nat1", {}, 400, "unauthorized_client"),
    ],
)
def test_dv_invalid_polls_are_refused_and_change_nothing(
    dv: LiveServers, client_id: str, said: dict[str, str], status: int, code: str
) -> None:
    begun = _begin(dv)
    with dv.nothing_changes():
        _poll(dv, begun, client_id, **said).refused(status, code)


def test_dv_codes_at_the_wrong_endpoint_are_refused(dv: LiveServers) -> None:
    begun, code = _begin(dv), dv.code("nat1", redirect_uri="http://127.0.0.1/cb")
    with dv.nothing_changes():
        _poll(dv, begun, device_code=code).refused(400, "invalid_grant")
        dv.exchange(begun["device_code"], "nat1").refused(400, "invalid_grant")
        assert dv.introspect(begun["device_code"])["active"] is False


@pytest.mark.parametrize(
    ("client_id", "said", "status", "code"),
    [
        ("tv1", {"scope": "read"}, 400, "invalid_scope"),
        ("tv1", {"scope": "client:read"}, 400, "invalid_scope"),
        ("tv1", {"scope": "  "}, 400, "invalid_scope"),
        ("tv1", {"resource": "https://other.example"}, 400, "invalid_target"),
        ("nobody", {}, 401, "invalid_client"),
        ("nat1", {}, 400, "unauthorized_client"),
        ("web1", {}, 401, "invalid_client"),
    ],
)
def test_dv_invalid_device_authorization_request_is_refused(
    dv: LiveServers, client_id: str, said: dict[str, str], status: int, code: str
) -> None:
    with dv.nothing_changes():
        form = {"client_id": client_id, **said}
        dv.post("/oauth/device-authorization", form).refused(status, code)


@pytest.mark.parametrize("ends", ["client", "user", "session"])
def test_dv_05_end_of_client_user_or_session_voids_approved_device_code(
    dv: LiveServers, ends: str
) -> None:
    settings, name, tv = dv.servers.settings, f"eve-{ends}", f"tv-{ends}"
    dv.client(tv, secret=None, type="public", grant_types=(*CODE_GRANT, DEVICE_CODE))
    uid = dv.servers.register_user(name, PASSWORD).uid
    waiting, begun = _begin(dv, tv), _begin(dv, tv)
    eve = UserAgent(dv.auth)
    page = _enter(dv, eve, begun["user_code"], name)
    assert "Device connected" in _allow(eve, page).text
    match ends:
        case "client":
            run_operation(settings, DISABLE, client_id=tv)
            _poll(dv, begun, tv).refused(401, "invalid_client")
            run_operation(settings, ENABLE, client_id=tv)
            _poll(dv, waiting, tv).refused(400, "invalid_grant")
            assert "invalid" in _enter(dv, eve, waiting["user_code"], name).text
        case "user":
            run_operation(settings, DISABLE_USER, uid=uid)
        case _:
            eve.submit(eve.open(f"{dv.auth}/oauth/sign-out"), "sign-out")
    _poll(dv, begun, tv).refused(400, "invalid_grant")
    _poll(dv, begun, tv).refused(400, "invalid_grant")


@pytest.fixture
def still(dv: LiveServers) -> Iterator[LiveServers]:
    """The same with a clock that stands, because limits refill while a slow machine asks."""
    with dv.servers.clock.stopped():
        yield dv


def test_dv_01_wrong_codes_are_limited_and_right_codes_do_not_count(still: LiveServers) -> None:
    begun, alice = _begin(still), UserAgent(still.auth)
    for typed in ("BCDF-GHJ", "BCDF-GHJA", "1234-5678", "ſſſſſſſſ", "\uff22" * 8, "", "../admin"):
        assert "invalid" in _enter(still, alice, typed).text
    for _ in range(12):
        assert begun["user_code"] in _enter(still, alice, begun["user_code"]).text
    # Two of those were codes of other keyboards, and counted as guesses.
    for number in range(8):
        page = alice.open(f"{still.auth}/device/BCDF-GHJ{ALPHABET[number]}")
        assert (page.status, "invalid" in page.text) == (400, True)
    # Mallory is at the same address.
    for person, name in ((alice, "alice"), (UserAgent(still.auth), "mallory")):
        assert _enter(still, person, begun["user_code"], name).status == 429
    still.servers.clock.forward(minutes(2))
    assert begun["user_code"] in _enter(still, alice, begun["user_code"]).text


def test_dv_codes_are_limited_per_address(still: LiveServers) -> None:
    with ThreadPoolExecutor(CROWD) as crowd:
        form = {"client_id": "tv1"}
        futures = [
            crowd.submit(still.post, "/oauth/device-authorization", form) for _ in range(CROWD)
        ]
        answers = [future.result() for future in futures]
    assert sorted(answer.status for answer in answers) == [200] * 30 + [429] * (CROWD - 30)


def _use_up(world: LiveServers, bucket: str, most: int) -> None:
    """Take what is left of a limit, as that many requests would."""
    limit = Limit(most, world.servers.settings.section(DeviceSettings).code_lifetime)
    now = world.servers.clock.now()

    def take_all(tx: Transaction) -> None:
        while not tx.throttles.take(bucket, limit, now):
            pass

    world.servers.write(take_all)


def test_dv_01_guesses_of_all_users_together_are_limited(still: LiveServers) -> None:
    begun, alice = _begin(still), UserAgent(still.auth)
    settings = still.servers.settings.section(DeviceSettings)
    _use_up(still, "user_codes", settings.wrong_codes_everywhere)
    assert _enter(still, alice, begun["user_code"]).status == 429
    still.servers.clock.forward(minutes(2))
    assert begun["user_code"] in _enter(still, alice, begun["user_code"]).text


def test_dv_codes_are_limited_per_client(still: LiveServers) -> None:
    _use_up(
        still,
        "device_codes_of:tv1",
        still.servers.settings.section(DeviceSettings).codes_per_client,
    )
    refused = still.post("/oauth/device-authorization", {"client_id": "tv1"})
    assert (refused.status, refused.json["error"]) == (429, "slow_down")
    _begin(still, "tv2")


def test_dv_03_form_is_accepted_only_from_its_own_session_and_origin(dv: LiveServers) -> None:
    begun, alice, mallory = _begin(dv), UserAgent(dv.auth), UserAgent(dv.auth)
    page = _enter(dv, alice, begun["user_code"])
    _enter(dv, mallory, begun["user_code"], "mallory")
    with dv.nothing_changes():
        assert _allow(mallory, page).status == 403
        assert mallory.open(page.url, {"origin": "https://evil.example"}).status == 200
        refused = alice.submit(page, "allow", headers={"origin": "https://evil.example"})
        assert refused.status == 403
    assert "Device connected" in _allow(alice, page).text


def test_dv_users_outside_the_groups_of_the_app_cannot_allow_it(dv: LiveServers) -> None:
    begun, alice = _begin(dv, "staff-tv"), UserAgent(dv.auth)
    page = _allow(alice, _enter(dv, alice, begun["user_code"]))
    assert page.status == 403
    assert "not in a group" in page.text
    _poll(dv, begun, "staff-tv").refused(400, "authorization_pending")


def test_dv_07_verification_uri_complete_requires_confirmation_too(dv: LiveServers) -> None:
    begun, alice = _begin(dv), UserAgent(dv.auth)
    page = alice.sign_in(alice.open(begun["verification_uri_complete"]), "alice", PASSWORD)
    assert "If someone sent you this link" in page.text
    _poll(dv, begun).refused(400, "authorization_pending")
    picture = alice.open(begun["verification_uri_complete"] + "/qr.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert alice.open(f"{dv.auth}/device/x/qr.svg").status == 404
