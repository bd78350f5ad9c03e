"""How the API says no."""

import asyncio
import re
from pathlib import Path

import msgspec

from tests.resource.api import Answer, Api, api, send
from valetkey.authorization.endpoints.admin_api import Problems as AdminProblems
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.database.decisions import DecisionQueue
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.problem import Problems
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.caller import Challenge
from valetkey.web.exchange import Request


def test_problem_has_type_title_detail_and_reference(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("GET", "/v2/notes/note_none")
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json
            assert re.fullmatch(r"VK-(?:[0-9A-HJKMNP-TV-Z]{4}-?){3}", problem.pop("reference"))
            assert problem == {
                "type": f"{call.issuer.url}/errors/not_found",
                "title": "Not Found Error",
                "status": 404,
                "detail": "you have no such object",
                "code": "not_found",
            }

    asyncio.run(story())


def test_a_type_of_problem_has_one_title_in_both_servers_and_the_sdk() -> None:
    issuer, request = "https://id.example", Request("GET", "/x")
    decisions = DecisionQueue(SYSTEM.random)
    api_problems = Problems(issuer, Challenge("x"), decisions)
    admin_problems = AdminProblems(issuer, ClientDecisionQueue(SYSTEM.random))
    gate = Gate(issuer, audience="https://api.example")
    titles: dict[str, set[str]] = {}
    for code in ErrorCode:
        refusal = Refusal(code, "a reason")
        for body in (
            api_problems.answer(request, refusal).body,
            admin_problems.answer(request, refusal, "/x").body,
            gate.deny(refusal).body,
        ):
            problem = msgspec.json.decode(body)
            titles.setdefault(problem["type"], set()).add(problem["title"])
    assert len(titles) == len(ErrorCode)
    assert all(len(several) == 1 for several in titles.values()), titles
    assert titles[f"{issuer}/errors/invalid_token"] == {"Invalid Token Error"}


def test_challenge_without_a_bearer_token_has_no_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for authorization in (None, "Basic cHJpbnRlcjp4", "Bearers x"):
                answer = await _shown(call, authorization)
                assert answer.status == 401
                challenge = answer.headers["www-authenticate"]
                assert challenge.startswith('Bearer realm="')
                assert "error" not in challenge
                assert answer.json["title"] == "Invalid Token Error"

    asyncio.run(story())


def test_a_bad_token_is_an_invalid_token_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            good = call.issuer.token("read")
            for authorization in (
                "Bearer",
                "Bearer ",
                f"Bearer  {good}",
                f"Bearer {good} ",
                f"Bearer {good},{good}",
                f"Bearer\t{good}",
                f"Bearer {good[:-4]}AAAA",
                "Bearer vk_at_short",
            ):
                answer = await _shown(call, authorization)
                assert answer.status == 401, authorization
                assert 'error="invalid_token"' in answer.headers["www-authenticate"]
                assert answer.json["title"] == "Invalid Token Error"
            assert (await _shown(call, f"bEARER {good}")).status == 200

    asyncio.run(story())


def test_unknown_api_version_gets_404_with_the_current_version(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            for path in ("/v3/notes", "/v1/account", "/", "/notes"):
                answer = await call("GET", path)
                assert (answer.status, "/v2/" in answer.json["detail"]) == (404, True)
            assert (await call("GET", "/v2/teapots")).status == 404

    asyncio.run(story())


def test_input_is_not_repeated_in_error_responses(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            canary = "canary-7d1f"
            await call("GET", f"/v2/notes/{canary}")
            await call("GET", f"/v2/{canary}")
            await call("GET", f"/v2/notes?{canary}=1")
            await call("GET", "/v2/notes", token=canary)
            await call("POST", "/v2/notes", {"title": canary * 100})
            await call("GET", "/v2/notes", accept=canary)
            await call("PUT", "/v2/notes/x", {"title": "x"}, if_match=canary)
            await call("POST", "/v2/notes", {"title": "x"}, content_type=canary)
            for answer in call.seen:
                assert 400 <= answer.status < 500
                assert canary.encode() not in answer.body
                assert canary not in str(answer.headers)

    asyncio.run(story())


def test_every_code_has_a_title_and_an_address() -> None:
    titles = {code.heading for code in ErrorCode}
    assert len(titles) == len(ErrorCode)
    assert {"Invalid Token Error", "Server Error"} <= titles
    assert all(title.endswith(" Error") for title in titles)


async def _shown(call: Api, authorization: str | None) -> Answer:
    fields = {"host": "127.0.0.1:8401"}
    if authorization is not None:
        fields["authorization"] = authorization
    return await send(call.app, "GET", "/v2/notes", fields, b"")


def test_a_fault_keeps_the_reference_that_the_log_has() -> None:
    queue = DecisionQueue(SYSTEM.random)
    problems = Problems("https://a.example", Challenge("x"), queue)
    reference = "VK-AAAA-BBBB-CCCC"
    fault = Refusal(ErrorCode.SERVER_ERROR, "the server failed", "http.failed", "", reference)
    answer = problems.refuse_at("/v2/notes")(Request("GET", "/v2/notes"), fault)
    assert answer.status == 500
    assert msgspec.json.decode(answer.body)["reference"] == reference
    assert not queue.waiting


def test_temporary_refusal_has_retry_after() -> None:
    problems = Problems("https://a.example", Challenge("x"), DecisionQueue(SYSTEM.random))
    busy = Refusal(ErrorCode.TEMPORARILY_UNAVAILABLE, "busy", retry_after=3)
    answer = problems.refuse(Request("GET", "/v2/notes"), busy)
    assert (answer.status, dict(answer.headers)["retry-after"]) == (503, "3")


def test_a_patch_that_is_no_json_is_an_invalid_request(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            answer = await call("PATCH", "/v2/notes/x", body=b"{")
            assert (answer.status, answer.json["code"]) == (400, "invalid_request")

    asyncio.run(story())
