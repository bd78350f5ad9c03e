"""Attacks on whose data it is: group AP of the catalogue, for objects of users and of clients."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.resource.api import Api, following, serving, settings_for
from tests.resource.objects.books import STOCK, TASK, write_objects
from tests.sdk.issuer import Clock, Issuer
from valetkey.kernel.replace import replace

_TEA = {"article": "tea", "left": 3}
_VERBS = ("GET", "HEAD", "PUT", "PATCH", "DELETE")


@contextlib.asynccontextmanager
async def _api(directory: Path, *, stock: str = STOCK) -> AsyncGenerator[Api]:
    """`stock` belongs to clients, `tasks` to users; calls are the client shop's own."""
    write_objects(directory, stock_json=stock, tasks_json=TASK)
    async with Issuer(Clock()).running() as issuer:
        settings = settings_for(directory, issuer)
        settings = replace(settings, resource=replace(settings.resource, objects="objects"))
        async with serving(settings, issuer) as server:
            server.token = issuer.token("stock:read stock:write", uid=None, client="shop")
            yield server


def test_ap_07_object_of_another_client_is_not_found(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            made = await call("POST", "/v2/stock", _TEA)
            path = f"/v2/stock/{made.json['id']}"
            other = call.issuer.token("stock:read stock:write", uid=None, client="depot")
            nowhere = await call("GET", "/v2/stock/stock_nowhere", token=other)
            for method in _VERBS:
                body = _TEA if method in ("PUT", "PATCH") else None
                answer = await call(method, path, body, token=other)
                assert answer.status == 404, method
                if method != "HEAD":
                    assert answer.json["detail"] == nowhere.json["detail"]
            assert (await call("GET", "/v2/stock", token=other)).json["items"] == []
            assert (await call("GET", path)).json == made.json

    asyncio.run(attack())


def test_ap_07_user_token_of_any_scope_is_refused_for_client_objects(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            made = await call("POST", "/v2/stock", _TEA)
            path = f"/v2/stock/{made.json['id']}"
            wide = "read write stock:read stock:write"
            # Also for a user of the app itself, and for one whose uid reads like the app's id.
            for client, uid in (("shop", 1001), ("1001", 1002), ("depot", 1001)):
                token = call.issuer.token(wide, uid=uid, client=client)
                for method in _VERBS:
                    body = _TEA if method in ("PUT", "PATCH") else None
                    assert (await call(method, path, body, token=token)).status == 403
                assert (await call("POST", "/v2/stock", _TEA, token=token)).status == 403
                assert (await call("GET", "/v2/stock", token=token)).status == 403

    asyncio.run(attack())


def test_ap_07_apps_own_token_cannot_access_objects_of_a_user(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            ada = call.issuer.token("read write")
            made = await call("POST", "/v2/tasks", {"title": "mine"}, token=ada)
            path = f"/v2/tasks/{made.json['id']}"
            own = call.issuer.token("read write tasks:read tasks:write", uid=None, client="shop")
            for method in _VERBS:
                body = {"title": "x"} if method in ("PUT", "PATCH") else None
                assert (await call(method, path, body, token=own)).status == 403

    asyncio.run(attack())


def test_ap_01_read_and_write_scopes_do_not_cover_objects_of_apps(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            token = call.issuer.token("read write client:read", uid=None, client="shop")
            answer = await call("GET", "/v2/stock", token=token)
            assert answer.status == 403
            assert 'scope="stock:read"' in answer.headers["www-authenticate"]

    asyncio.run(attack())


def test_ap_11_request_cannot_set_the_owner_of_an_object(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            for field in ("owner", "client_id", "uid", "owned_by", "id"):
                answer = await call("POST", "/v2/stock", {**_TEA, field: "depot"})
                assert answer.status == 400
                assert [error["pointer"] for error in answer.json["errors"]] == [f"/{field}"]

    asyncio.run(attack())


def test_ap_13_idempotency_keys_of_two_clients_are_independent(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            other = call.issuer.token("stock:read stock:write", uid=None, client="depot")
            first = await call("POST", "/v2/stock", _TEA, idempotency_key="one")
            tins = {"article": "tin", "left": 1}
            second = await call("POST", "/v2/stock", tins, token=other, idempotency_key="one")
            assert (first.status, second.status) == (201, 201)
            assert first.json["id"] != second.json["id"]

    asyncio.run(attack())


def test_ap_17_a_cursor_of_one_app_is_refused_to_another(tmp_path: Path) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            for left in range(3):
                await call("POST", "/v2/stock", {**_TEA, "left": left})
            first = await call("GET", "/v2/stock?sort=-left&limit=1")
            target = following(first)
            assert (await call("GET", target)).status == 200
            other = call.issuer.token("stock:read", uid=None, client="depot")
            assert (await call("GET", target, token=other)).status == 400

    asyncio.run(attack())


def test_ap_07_objects_of_clients_stay_hidden_after_ownership_moves_to_users(
    tmp_path: Path,
) -> None:
    async def attack() -> None:
        async with _api(tmp_path) as call:
            made = await call("POST", "/v2/stock", _TEA)
        peoples = STOCK.replace('"owned_by": "client"', '"owned_by": "user"')
        async with _api(tmp_path, stock=peoples) as call:
            ada = call.issuer.token("read write", uid=1001, client="shop")
            assert (await call("GET", "/v2/stock", token=ada)).json["items"] == []
            path = f"/v2/stock/{made.json['id']}"
            assert (await call("GET", path, token=ada)).status == 404
            assert (await call("GET", path)).status == 403

    asyncio.run(attack())
