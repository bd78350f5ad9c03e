"""TX: exchanged tokens: whose, how wide, how long, for whom, and what ends them."""

import json
from base64 import urlsafe_b64decode

import pytest

from tests.support.live import SCOPES, Answer, LiveServers, raw_jwt
from tests.support.operations import run_operation
from tests.support.wait import wait_until
from valetkey.authorization.operations.client_state import DISABLE
from valetkey.authorization.operations.users import DISABLE_USER, ENABLE_USER

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@pytest.fixture(scope="module", autouse=True)
def gateways(world: LiveServers) -> None:
    """gate1 exchanges tokens of web1, gate2 those of gate1 too, by reference; gate3 its own."""
    kinds = (EXCHANGE, "client_credentials")
    read = ("notes:read", "account:read")
    for name, whose, how in (
        ("gate1", ("web1",), "jwt"),
        ("gate2", ("web1", "gate1", "gate2"), "reference"),
        ("gate3", (), "jwt"),
    ):
        world.client(
            name,
            grant_types=kinds,
            redirect_uris=(),
            scopes=read if name != "gate3" else SCOPES,
            exchanges_tokens_of=whose,
            access_token_format=how,
        )


def _exchange(
    world: LiveServers, token: str, client_id: str = "gate1", **parameters: str
) -> Answer:
    form = {"subject_token": token, "subject_token_type": ACCESS_TOKEN, **parameters}
    return world.token(client_id, grant_type=EXCHANGE, **form)


def _acts(world: LiveServers, token: str, client_id: str, actor: str = "") -> Answer:
    own = world.token(actor or client_id, grant_type="client_credentials").json["access_token"]
    return _exchange(world, token, client_id, actor_token=own, actor_token_type=ACCESS_TOKEN)


def _claims(token: str) -> dict[str, object]:
    part = token.split(".")[1]
    claims: dict[str, object] = json.loads(urlsafe_b64decode(part + "=="))
    return claims


def test_tx_exchanged_token_keeps_the_subject_and_is_accepted(world: LiveServers) -> None:
    first = world.tokens(scope="notes:read notes:write")
    answer = _exchange(world, first["access_token"])
    answer.ok()
    body = answer.json
    assert body["issued_token_type"] == ACCESS_TOKEN
    assert body["scope"] == "notes:read"
    assert "refresh_token" not in body
    claims, before = _claims(body["access_token"]), _claims(first["access_token"])
    assert claims["client_id"] == "gate1"
    assert "act" not in claims
    assert {name: claims[name] for name in ("sub", "grant_id", "aud")} == {
        name: before[name] for name in ("sub", "grant_id", "aud")
    }
    assert int(str(claims["exp"])) <= int(str(before["exp"]))
    world.call(body["access_token"]).ok()
    assert world.introspect(body["access_token"], "gate1")["active"] is True
    assert world.introspect(body["access_token"], "web1")["active"] is False


def test_tx_delegation_names_the_actors_up_to_five(world: LiveServers) -> None:
    token = world.tokens()["access_token"]
    answer = _acts(world, token, "gate1")
    answer.ok()
    assert _claims(answer.json["access_token"])["act"] == {"sub": "gate1"}
    token = answer.json["access_token"]
    for _ in range(4):
        answer = _acts(world, token, "gate2")
        answer.ok()
        token = answer.json["access_token"]
    act: object = world.introspect(token, "gate2")["act"]
    chain: list[object] = []
    while isinstance(act, dict):
        chain.append(act["sub"])
        act = act.get("act")
    assert chain == ["gate2"] * 4 + ["gate1"]
    with world.nothing_changes():
        _exchange(world, token, "gate1").refused(400, "invalid_request")
    _acts(world, token, "gate2").refused(400, "invalid_request")
    _exchange(world, token, "gate2").ok()
    _acts(world, token, "gate2", "gate1").refused(400, "invalid_request")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"subject_token": ""}, "invalid_request"),
        ({"subject_token_type": ""}, "invalid_request"),
        ({"subject_token_type": ACCESS_TOKEN[:-12] + "id_token"}, "invalid_request"),
        ({"subject_token": "", "actor_token": "x"}, "invalid_request"),
        ({"actor_token": "x"}, "invalid_request"),
        ({"actor_token_type": ACCESS_TOKEN}, "invalid_request"),
        ({"actor_token": "x", "actor_token_type": ACCESS_TOKEN}, "invalid_request"),
        ({"requested_token_type": ACCESS_TOKEN[:-12] + "refresh_token"}, "invalid_request"),
        ({"subject_token": "x.y.z"}, "invalid_request"),
        ({"subject_token": "vk_at_x"}, "invalid_request"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"audience": "https://other.example"}, "invalid_target"),
        ({"scope": "notes:write"}, "invalid_scope"),
        ({"scope": "account:read"}, "invalid_scope"),
        ({"scope": "client:read"}, "invalid_scope"),
        ({"scope": "openid"}, "invalid_scope"),
    ],
)
def test_tx_03_invalid_exchange_requests_are_refused_and_change_nothing(
    world: LiveServers, said: dict[str, str], code: str
) -> None:
    token = world.tokens()["access_token"]
    with world.nothing_changes():
        _exchange(world, token, **said).refused(400, code)


def test_tx_01_other_tokens_are_refused_as_subject(world: LiveServers) -> None:
    first = world.tokens()
    token = first["access_token"]
    header, claims = {"alg": "none", "typ": "at+jwt"}, _claims(token)
    own = world.token("svc1", grant_type="client_credentials").json["access_token"]
    others = world.tokens("web2")["access_token"]
    with world.nothing_changes():
        for wrong in (
            raw_jwt(header, claims),
            raw_jwt(header, {**claims, "iss": "https://other.example"}),
            first["refresh_token"],
            own,
            others,
        ):
            _exchange(world, wrong).refused(400, "invalid_request")
        # TX-05: neither listed nor its own; no grant type; no secret.
        _exchange(world, token, "gate3").refused(400, "invalid_request")
        _exchange(world, token, "web1").refused(400, "unauthorized_client")
        _exchange(world, token, client_secret="x").refused(401, "invalid_client")


def test_tx_revoked_subject_grant_ends_exchanged_tokens(world: LiveServers) -> None:
    for client_id in ("gate1", "gate2"):
        first = world.tokens()
        token = _exchange(world, first["access_token"], client_id).json["access_token"]
        assert world.introspect(token, client_id)["active"] is True
        world.token(path="/oauth/revoke", token=first["refresh_token"]).ok()
        assert world.introspect(token, client_id)["active"] is False
        with world.nothing_changes():
            _exchange(world, first["access_token"], client_id).refused(400, "invalid_request")
            _exchange(world, token, client_id).refused(400, "invalid_request")


@pytest.mark.parametrize("how", ["jwt", "reference"])
@pytest.mark.parametrize("ended", ["front", "back"])
def test_tx_disabling_either_client_ends_the_token(
    world: LiveServers, how: str, ended: str
) -> None:
    front, back = f"front-{how}-{ended}", f"back-{how}-{ended}"
    world.client(front)
    world.client(
        back,
        grant_types=(EXCHANGE,),
        redirect_uris=(),
        access_token_format=how,
        exchanges_tokens_of=(front,),
    )
    token = _exchange(world, world.tokens(front)["access_token"], back).json["access_token"]
    world.call(token).ok()
    run_operation(world.servers.settings, DISABLE, client_id=f"{ended}-{how}-{ended}")
    wait_until(lambda: world.call(token).status == 401)
    # Here at once: the next client in a chain must not go on with it.
    world.client(
        f"next-{back}",
        grant_types=(EXCHANGE,),
        redirect_uris=(),
        exchanges_tokens_of=(back,),
    )
    _exchange(world, token, f"next-{back}").refused(400, "invalid_request")


@pytest.mark.parametrize("client_id", ["gate1", "gate2"])
def test_tx_disabled_user_ends_subject_and_actor(world: LiveServers, client_id: str) -> None:
    uid = int(str(world.tokens()["uid"]))
    first = world.tokens()["access_token"]
    token = _exchange(world, first, client_id).json["access_token"]
    own = world.token(client_id, grant_type="client_credentials").json["access_token"]
    actor = {"actor_token": own, "actor_token_type": ACCESS_TOKEN}
    run_operation(world.servers.settings, DISABLE_USER, uid=uid)
    try:
        with world.nothing_changes():
            for subject in (first, token):
                _exchange(world, subject, client_id).refused(400, "invalid_request")
                _exchange(world, subject, client_id, **actor).refused(400, "invalid_request")
        assert world.introspect(token, client_id)["active"] is False
    finally:
        run_operation(world.servers.settings, ENABLE_USER, uid=uid)
    # What was issued before has ended.
    _exchange(world, first, client_id).refused(400, "invalid_request")


def test_tx_actor_chain_is_limited_to_five_and_keeps_the_expiry(world: LiveServers) -> None:
    """gate4 exchanges what it was given again and again, as its own actor."""
    world.client(
        "gate4",
        grant_types=(EXCHANGE, "client_credentials"),
        redirect_uris=(),
        scopes=("notes:read", "account:read"),
        exchanges_tokens_of=("gate2", "gate4"),
        access_token_format="jwt",
    )
    token = world.tokens()["access_token"]
    ends = _claims(token)["exp"]
    for client_id in ("gate2", "gate4", "gate4", "gate4", "gate4"):
        answer = _acts(world, token, client_id)
        answer.ok()
        token = answer.json["access_token"]
    assert _claims(token)["exp"] == ends
    depth, act = 0, _claims(token).get("act")
    while isinstance(act, dict):
        depth, act = depth + 1, act.get("act")
    assert depth == 5
    _acts(world, token, "gate4").refused(400, "invalid_request")
    _acts(world, token, "gate4", "gate2").refused(400, "invalid_request")
    assert world.introspect(token, "gate4")["active"] is True
