"""Claims at every grant type: the preview, the limit of 8 KiB, and chains of exchanges."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import Caller, caller
from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.jwt import parse

API = "https://calendar.example/mcp"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_OF_ONE_TOKEN = {"iat", "exp", "at_hash", "c_hash", "sid", "nonce", "auth_time", "jti"}


def _said(token: str) -> Mapping[str, object]:
    claims: Mapping[str, object] = json.loads(parse(token, ("jwt", "at+jwt")).payload)
    return claims


async def _declare(owner: Caller, name: str, source: str, *places: str, **more: object) -> None:
    body: dict[str, object] = {"from": source, "in": places, **more}
    answer = await owner.call("PUT", f"/claims/{name}", body)
    assert answer.json == {"changed": True}, answer.body


async def _exchanged(it: Harness, client: str, token: str, **more: str) -> Answer:
    more = {"subject_token": token, "subject_token_type": _TOKEN, **more}
    return await it.token(client, grant_type=_EXCHANGE, **more)


async def _relay(it: Harness, client_id: str, *of: str) -> None:
    await it.client(
        client_id,
        grant_types=(_EXCHANGE,),
        redirect_uris=(),
        exchanges_tokens_of=of,
        access_token_format="jwt",
    )


def _check(reference: str, tx: Transaction) -> str:
    record = tx.decisions.find(reference)
    assert record is not None
    return record.check


def test_preview_of_id_token_equals_the_issued_one(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await owner.call("POST", "/groups", {"name": "staff"})
        await owner.call("PUT", f"/groups/staff/members/{ADA}")
        scopes = ("openid", "profile", "email", "groups")
        await it.client("app", scopes=scopes, access_token_format="jwt")
        await _declare(owner, "tenant", "constant:eu", "id_token", "access_token")
        await _declare(owner, "teams", "groups", "id_token", scope="groups")
        await _declare(owner, "other", "constant:x", "id_token", clients=["app"], scope="address")
        for scope in ("openid", "openid profile", "openid email groups"):
            tokens = await it.exchange("app", await it.code("app", scope, methods=("pwd",)))
            query = scope.replace(" ", "%20")
            preview = await owner.call("GET", f"/users/{ADA}/claims/app?scope={query}")
            assert preview.status == 200, preview.body
            for name in ("id_token", "access_token"):
                issued, shown = _said(tokens.text(name)), preview.json[name]
                assert isinstance(shown, dict)
                skipped = {*_OF_ONE_TOKEN, "grant_id"}
                assert {key: value for key, value in issued.items() if key not in skipped} == {
                    key: value for key, value in shown.items() if key not in skipped
                }, (scope, name)
                assert shown.keys() <= {*issued.keys(), "sid"}, (scope, name)

    run(tmp_path, story, database_url)


def test_claims_above_eight_kibibytes_are_refused_without_user_and_at_exchange(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        await it.client("app", scopes=("openid", "notes:read"), access_token_format="jwt")
        await it.client("svc", grant_types=("client_credentials",), access_token_format="jwt")
        await _relay(it, "relay", "app")
        tokens = await it.exchange("app", await it.code("app"))
        token = tokens.text("access_token")
        assert (await _exchanged(it, "relay", token)).status == 200
        for number in range(9):
            await _declare(owner, f"c{number}", f"constant:{'x' * 1_000}", "access_token")
        own = await it.token("svc", grant_type="client_credentials")
        for refused in (own, await _exchanged(it, "relay", token)):
            refused.refused(400, "invalid_request")
            await it.refusals_recorded()
            assert await it.read(partial(_check, refused.text("reference"))) == "claims.size"
        await owner.call("DELETE", "/claims/c8")
        assert (await it.token("svc", grant_type="client_credentials")).status == 200
        assert (await _exchanged(it, "relay", token)).status == 200

    run(tmp_path, story, database_url)


def test_loop_of_exchanges_extends_neither_lifetime_nor_actors(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", scopes=("openid", "notes:read"), access_token_format="jwt")
        await _relay(it, "one", "app", "two")
        await _relay(it, "two", "one")
        token = (await it.exchange("app", await it.code("app"))).text("access_token")
        ends = _said(token)["exp"]
        for turn in range(12):
            it.clock.forward(5)
            answer = await _exchanged(it, ("one", "two")[turn % 2], token)
            assert answer.status == 200, answer.body
            token = answer.text("access_token")
            claims = _said(token)
            assert claims["exp"] == ends
            assert "act" not in claims

    run(tmp_path, story, database_url)


def test_token_of_disabled_api_is_no_subject_of_an_exchange(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        scopes = {"calendar:read": "see your calendar"}
        body = {"identifier": API, "name": "Calendar", "scopes": scopes}
        api_id = str((await owner.call("POST", "/apis", body)).json["api_id"])
        await it.client("app", scopes=("openid", "notes:read"), access_token_format="jwt")
        await _relay(it, "relay", "app")
        api = await it.read(lambda tx: tx.apis.find(api_id))
        assert api is not None
        both = (("", 0), (api_id, api.generation))
        code = await it.code("app", f"notes:read {api_id}#calendar:read", apis=both)
        token = (await it.exchange("app", code, resource=API)).text("access_token")
        assert (await _exchanged(it, "relay", token, resource=API)).status == 200
        assert (await owner.call("POST", f"/apis/{api_id}/disable")).status == 200
        answer = await _exchanged(it, "relay", token, resource=API)
        assert answer.status == 400, answer.body
        assert (await owner.call("POST", f"/apis/{api_id}/enable")).status == 200
        # What ended stays ended.
        answer = await _exchanged(it, "relay", token, resource=API)
        answer.refused(400, "invalid_request")

    run(tmp_path, story, database_url)
