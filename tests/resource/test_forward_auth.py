"""What a proxy is told about a caller, and what a caller cannot tell the proxy."""

import asyncio
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.resource.api import Answer, Api, api
from tests.support.wait import until_found
from valetkey.kernel.jose.key import KeySet
from valetkey.web.exchange import Headers, Request

IDENTITY = {
    "x-valetkey-subject",
    "x-valetkey-subject-type",
    "x-valetkey-client",
    "x-valetkey-scope",
    "x-valetkey-token-id",
    "x-valetkey-expires-at",
}


def told(answer: Answer) -> set[str]:
    """The headers of ours that an answer has."""
    return {name for name in answer.headers if name.startswith("x-valetkey")}


def test_valid_token_with_the_scope_gets_identity_headers(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            draft = call.issuer.draft("notes:read read")
            answer = await call(
                "GET", "/forward-auth?scope=notes:read", token=draft.sign(call.issuer.key)
            )
            assert (answer.status, answer.body) == (200, b"")
            assert {name: answer.headers[name] for name in told(answer)} == {
                "x-valetkey-subject": "1001",
                "x-valetkey-subject-type": "user",
                "x-valetkey-client": "printer",
                "x-valetkey-scope": "notes:read read",
                "x-valetkey-token-id": draft.token_id,
                "x-valetkey-expires-at": str(draft.expires_at),
            }
            assert answer.headers["cache-control"] == "no-store"
            by_reference = call.issuer.reference("notes:read")
            again = await call("GET", "/forward-auth?scope=notes:read", token=by_reference)
            assert (again.status, again.headers["x-valetkey-subject"]) == (200, "1001")

    asyncio.run(story())


def test_subject_type_distinguishes_a_client_from_a_user_of_the_same_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("client:read", uid=None, client="1001")
            answer = await call("GET", "/forward-auth?scope=client:read", token=token)
            assert answer.headers["x-valetkey-subject"] == "1001"
            assert answer.headers["x-valetkey-subject-type"] == "client"
            assert told(answer) == IDENTITY

    asyncio.run(story())


@pytest.mark.parametrize(
    ("query", "granted", "status"),
    [
        ("scope=notes:read", "notes:read", 200),
        ("scope=notes:read", "notes:write", 403),
        ("scope=notes:read%20notes:write", "notes:read", 403),
        ("scope=notes:read+notes:write", "notes:write notes:read", 200),
        ("scope=notes:read&scope=read", "read", 200),
        ("scope=notes:read&scope=read", "write", 403),
        ("scope=notes:rea", "notes:read", 403),
    ],
)
def test_scopes_in_the_query_are_required_of_the_access_token(
    tmp_path: Path, query: str, granted: str, status: int
) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token(granted)
            answer = await call("GET", f"/forward-auth?{query}", token=token)
            assert answer.status == status
            if status == 403:
                challenge = answer.headers["www-authenticate"]
                assert 'error="insufficient_scope"' in challenge
                assert 'scope="notes:rea' in challenge
                assert not told(answer)

    asyncio.run(story())


@pytest.mark.parametrize(
    "target",
    ["", "?", "?scope=", "?scope=notes:read&scope=", "?scpoe=notes:read", "/x?scope=notes:read"],
)
def test_forward_auth_without_required_headers_is_refused(tmp_path: Path, target: str) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("GET", f"/forward-auth{target}")
            assert answer.status == 400
            assert answer.json["code"] == "invalid_request"
            assert not told(answer)

    asyncio.run(story())


@pytest.mark.parametrize("scope", ['"', "a  b", "a\\b", "x" * 1_001])
def test_empty_scope_is_refused(tmp_path: Path, scope: str) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("GET", "/forward-auth/x", x_valetkey_required_scope=scope)
            assert answer.status == 400

    asyncio.run(story())


def test_missing_invalid_and_expired_tokens_are_refused_as_at_the_api(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for path in ("/forward-auth?scope=read", "/forward-auth/any/path"):
                nobody = await call("GET", path, token="", x_valetkey_required_scope="read")
                assert nobody.status == 401
                assert "error=" not in nobody.headers["www-authenticate"]
                wrong = await call("GET", path, token="x.y.z", x_valetkey_required_scope="read")
                assert wrong.status == 401
                assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
                assert not told(nobody) | told(wrong)
            expiring = call.issuer.token("read", lifetime=60)
            assert (await call("GET", "/forward-auth?scope=read", token=expiring)).status == 200
            call.issuer.clock.at += 60
            assert (await call("GET", "/forward-auth?scope=read", token=expiring)).status == 401

    asyncio.run(story())


def test_a_token_for_another_api_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            draft = call.issuer.draft("read")
            other = type(draft)(
                issuer=draft.issuer,
                subject=draft.subject,
                client_id=draft.client_id,
                audience="https://other.example",
                scope=draft.scope,
                token_id=draft.token_id,
                issued_at=draft.issued_at,
                expires_at=draft.expires_at,
                grant_id=draft.grant_id,
                auth_time=None,
            ).sign(call.issuer.key)
            assert (await call("GET", "/forward-auth?scope=read", token=other)).status == 401

    asyncio.run(story())


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_envoy_requests_are_checked_for_any_method_path_query_and_host(
    tmp_path: Path, method: str
) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for path in ("/forward-auth/", "/forward-auth/notes/1/%2e%2e//?scope=x&scope="):
                for scope, status in (("read", 200), ("other", 403)):
                    answer = await call(
                        method, path, host="shop.example", x_valetkey_required_scope=scope
                    )
                    assert answer.status == status

    asyncio.run(story())


def test_other_paths_are_refused_for_a_foreign_host(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await call("GET", "/v2/notes", host="shop.example")).status == 421
            assert (await call("GET", "/forward-authx", host="shop.example")).status == 421

    asyncio.run(story())


def test_headers_of_the_caller_never_widen_access(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call(
                "GET", "/forward-auth?scope=read", x_valetkey_subject="0", x_valetkey_client="x"
            )
            assert answer.headers["x-valetkey-subject"] == "1001"
            assert answer.headers["x-valetkey-client"] == "printer"
            narrow = call.issuer.token("other")
            for path, status in (("?scope=read", 403), ("/x?scope=other", 200)):
                answer = await call(
                    "GET",
                    f"/forward-auth{path}",
                    token=narrow,
                    x_valetkey_scope="read",
                    x_valetkey_required_scope="other",
                )
                assert answer.status == status
            more = await call("GET", "/forward-auth?scope=read", x_valetkey_required_scope="other")
            assert more.status == 403

    asyncio.run(story())


def test_every_repeated_required_scope_header_is_enforced(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = next(r for r in call.app.routes if r.path == "/forward-auth").methods["GET"]
            token = call.issuer.token("a b").encode()
            for scopes, status in (((b"a", b"b"), 200), ((b"a", b"c"), 403)):
                fields = [(b"x-valetkey-required-scope", scope) for scope in scopes]
                headers = Headers([(b"authorization", b"Bearer " + token), *fields])
                request = Request(
                    "GET", "/forward-auth", headers=headers, at=call.issuer.clock.now()
                )
                assert (await answer(request)).status == status

    asyncio.run(story())


def test_unsafe_characters_in_identity_headers_are_percent_encoded(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            token = call.issuer.token("read", uid=None, client="caf\u00e9 100%")
            answer = await call("GET", "/forward-auth?scope=read", token=token)
            assert answer.headers["x-valetkey-client"] == "caf%C3%A9 100%25"
            assert unquote(answer.headers["x-valetkey-client"]) == "caf\u00e9 100%"

    asyncio.run(story())


def test_a_revoked_token_is_refused_within_seconds(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            draft = call.issuer.draft("read")
            token = draft.sign(call.issuer.key)
            assert (await call("GET", "/forward-auth?scope=read", token=token)).status == 200
            assert draft.grant_id is not None
            call.issuer.revoke("grant", draft.grant_id)
            await _until_refused(call, token)

    asyncio.run(story())


def test_unknown_state_is_answered_with_503(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            call.issuer.keys = KeySet()
            await call.issuer.stop()
            unknown = call.issuer.reference("read")
            answer = await call("GET", "/forward-auth?scope=read", token=unknown)
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")

    asyncio.run(story())


async def _until_refused(call: Api, token: str) -> None:
    async def is_refused() -> bool:
        return (await call("GET", "/forward-auth?scope=read", token=token)).status == 401

    await until_found(is_refused)
