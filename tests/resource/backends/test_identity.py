"""What lives at the authorization server, seen through this API."""

import asyncio
from pathlib import Path

import pytest

from tests.resource.api import api, following
from valetkey.resource.objects.identity import ACCOUNT


def test_the_account_is_read_and_renamed(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.accounts["1001"] = {"uid": 1001, "name": "Ada", "email": "a@example.com"}
            get = await call("GET", "/v2/account")
            post = await call("POST", "/v2/account")
            assert (get.status, get.json["name"], post.body) == (200, "Ada", get.body)
            assert (
                await call("GET", "/v2/account", if_none_match=get.headers["etag"])
            ).status == 304
            old = get.headers["etag"]
            patch = await call("PATCH", "/v2/account", {"name": "Ada L."}, if_match=old)
            assert (patch.status, patch.json["name"]) == (200, "Ada L.")
            whole = {**ACCOUNT.fields.defaults, "name": "Ada"}
            assert (await call("PUT", "/v2/account", whole, if_match=old)).status == 412
            assert (await call("PUT", "/v2/account", whole)).json["name"] == "Ada"
            assert (await call("PUT", "/v2/account", {"name": "Ada"})).status == 400
            account = {**whole, "uid": 1001, "email": "a@example.com"}
            assert (await call("PUT", "/v2/account", account)).status == 200
            for method in ("PUT", "PATCH"):
                other = {**account, "email": "b@example.com"}
                refused = await call(method, "/v2/account", other)
                pointers = [error["pointer"] for error in refused.json["errors"]]
                assert (refused.status, pointers) == (400, ["/email"])

    asyncio.run(story())


def test_a_patch_of_an_address_changes_the_parts_it_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.accounts["1001"] = {
                "uid": 1001,
                "name": "Ada",
                "address": {"locality": "London", "country": "UK"},
            }
            patch = await call("PATCH", "/v2/account", {"address": {"locality": "Bath"}})
            assert patch.json["address"] == {"locality": "Bath", "country": "UK"}
            patch = await call("PATCH", "/v2/account", {"address": {"country": None}})
            assert patch.json["address"] == {"locality": "Bath"}
            patch = await call("PATCH", "/v2/account", {"address": None, "nickname": None})
            assert (patch.json["address"], patch.json["nickname"]) == ({}, "")

    asyncio.run(story())


def test_only_the_name_of_an_account_can_be_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.accounts["1001"] = {"uid": 1001, "name": "Ada", "email_verified": False}
            for field in ("uid", "email", "email_verified", "created_at", "username"):
                answer = await call("PATCH", "/v2/account", {field: 1})
                assert answer.status == 400
                assert answer.json["errors"][0]["pointer"] == f"/{field}"
            assert call.issuer.accounts["1001"] == {
                "uid": 1001,
                "name": "Ada",
                "email_verified": False,
            }

    asyncio.run(story())


def test_a_client_reads_and_changes_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            own = {"client_id": "printer", "redirect_uri": "https://a/cb", "description": "old"}
            call.issuer.clients["printer"] = own
            call.token = call.issuer.token("client:read client:write", uid=None)
            assert (await call("POST", "/v2/client")).json["description"] == "old"
            new = {"redirect_uri": "https://b/cb", "description": "new"}
            put = await call("PUT", "/v2/client", new)
            assert (put.status, put.json["redirect_uri"]) == (200, "https://b/cb")
            several = {"redirect_uris": ["https://c/cb"], "description": "new"}
            assert (await call("PUT", "/v2/client", several)).status == 200
            patch = await call("PATCH", "/v2/client", {"description": None})
            assert patch.json["description"] == ""
            short = await call("PUT", "/v2/client", {"description": "x"})
            assert [e["pointer"] for e in short.json["errors"]] == ["/redirect_uri"]
            removed = await call("PATCH", "/v2/client", {"redirect_uri": None})
            assert removed.status == 400
            secret = await call("PATCH", "/v2/client", {"client_secret": "x" * 40})
            assert secret.json["errors"][0]["pointer"] == "/client_secret"

    asyncio.run(story())


def test_issuer_refusal_is_passed_on_with_pointers_and_reference(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.clients["printer"] = {"client_id": "printer"}
            token = call.issuer.token("client:write", uid=None)
            change = {"redirect_uri": "javascript:alert(1)"}
            answer = await call("PATCH", "/v2/client", change, token=token)
            assert answer.status == 400
            assert answer.json["errors"] == [{"pointer": "/redirect_uri", "detail": "use https"}]
            assert answer.json["reference"] == "VK-DDDD-EEEE-FFFF"

    asyncio.run(story())


def test_authorizations_are_listed_read_and_revoked(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for number in range(5):
                call.issuer.grants[f"gr_{number}"] = {
                    "uid": "1001",
                    "client_id": "printer",
                    "created_at": 10 - number,
                }
            call.issuer.grants["gr_other"] = {"uid": "1002", "created_at": 1}
            page = await call("GET", "/v2/authorizations?limit=3")
            first = page.json
            assert [authorization["id"] for authorization in first["items"]] == [
                "gr_4",
                "gr_3",
                "gr_2",
            ]
            rest = (await call("GET", following(page))).json
            assert [authorization["id"] for authorization in rest["items"]] == ["gr_1", "gr_0"]
            assert rest["next"] is None
            one = await call("GET", "/v2/authorizations/gr_2")
            assert one.json["client_id"] == "printer"
            assert (await call("DELETE", "/v2/authorizations/gr_2")).status == 204
            gone = await call("GET", "/v2/authorizations/gr_2")
            assert (gone.status, gone.json["reference"]) == (404, "VK-AAAA-BBBB-CCCC")
            assert (await call("GET", "/v2/authorizations/gr_other")).status == 404
            assert (await call("DELETE", "/v2/authorizations/gr_other")).status == 404
            assert "gr_other" in call.issuer.grants

    asyncio.run(story())


def test_failing_issuer_results_in_503_not_500(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes")).status == 200
            call.issuer.broken = True
            answer = await call("GET", "/v2/account")
            assert (answer.status, answer.json["code"]) == (503, "temporarily_unavailable")

    asyncio.run(story())


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"nonsense"),
        (200, b'{"record":7}'),
        (200, b"{}"),
        (404, b"<html>"),
        (404, b'{"error":"not_found"}' * 2),
        (400, b'{"error":"not_found"}'),
        (401, b'{"error":"invalid_client"}'),
        (400, b'{"error":"something_new"}'),
        (302, b"{}"),
    ],
)
def test_invalid_response_of_the_issuer_results_in_503(
    tmp_path: Path, answer: tuple[int, bytes]
) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes")).status == 200
            call.issuer.identity = answer
            refused = await call("GET", "/v2/account")
            assert (refused.status, refused.json["code"]) == (503, "temporarily_unavailable")

    asyncio.run(story())


def test_token_refused_by_the_issuer_is_invalid_at_the_resource_server(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            body = b'{"error":"invalid_token","error_description":"it was revoked"}'
            call.issuer.identity = (401, body)
            answer = await call("GET", "/v2/account")
            assert (answer.status, answer.json["title"]) == (401, "Invalid Token Error")
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]

    asyncio.run(story())
