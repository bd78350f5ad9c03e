"""The operator's claims file: its claims, and that its failure is never a gap."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, harness
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import User
from valetkey.config.settings import Settings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.jwt import parse
from valetkey.kernel.replace import replace

GOOD = """
def claims(user, client, api, scopes):
    print("not an answer")
    if user is None:
        return {"kind": "program"}
    if api is None:
        return {"desk": user["attributes"].get("team"), "groups_seen": user["groups"]}
    return {"audience": api["identifier"], "may": "notes:read" in scopes, "of": client["client_id"]}
"""


def _said(token: str) -> Mapping[str, object]:
    claims: Mapping[str, object] = json.loads(parse(token, ("jwt", "at+jwt")).payload)
    return claims


def _server(directory: Path, text: str, database: str = "") -> AbstractAsyncContextManager[Harness]:
    (directory / "claims.py").write_text(text)
    tokens = replace(
        Settings().tokens, claims_file="claims.py", signing_algorithms=(Algorithm.ES256,)
    )
    return harness(directory, database, tokens=tokens)


async def _refused(it: Harness, answer: Answer) -> str:
    """What the decision record received."""
    answer.refused(503, "temporarily_unavailable")
    await it.refusals_recorded()
    record = await it.read(lambda tx: tx.decisions.find(answer.text("reference")))
    assert record is not None
    assert (record.check, record.expected) == ("claims.file", "a mapping of claims from claims.py")
    return record.received


def test_claims_function_sets_the_claims_of_each_token(tmp_path: Path, database_url: str) -> None:
    async def story() -> None:
        async with _server(tmp_path, GOOD, database_url) as it:
            owner = await caller(it)
            await owner.call("PUT", "/attributes/team", {})
            await owner.call("PATCH", f"/users/{ADA}/attributes", {"attributes": {"team": "ops"}})
            await it.client("app", scopes=("openid", "notes:read"), access_token_format="jwt")
            await it.client("svc", grant_types=("client_credentials",), access_token_format="jwt")
            codes = [await it.code("app", "openid notes:read") for _ in range(4)]
            answers = await asyncio.gather(*(it.exchange("app", code) for code in codes))
            for tokens in answers:
                of_access = _said(tokens.text("access_token"))
                assert (of_access["audience"], of_access["may"]) == (it.settings.resource.url, True)
                assert of_access["of"] == "app"
                of_id = _said(tokens.text("id_token"))
                assert (of_id["desk"], of_id["groups_seen"]) == ("ops", [])
            assert _said(await it.own_token("svc"))["kind"] == "program"
            bearer = f"Bearer {answers[0].text('access_token')}"
            userinfo = (await it.call("GET", "/oauth/userinfo", authorization=bearer)).json
            assert userinfo["desk"] == "ops"
            preview = (await owner.call("GET", f"/users/{ADA}/claims/app")).json
            assert preview["userinfo"] == userinfo
            times = {"jti": "", "grant_id": "", "iat": 0, "exp": 0, "auth_time": 0}
            issued = _said(answers[0].text("access_token"))
            previewed = preview["access_token"]
            assert isinstance(previewed, dict)
            assert {**previewed, **times} == {**issued, **times}

    asyncio.run(story())


BODIES = {
    "raise KeyError('vk_cs_secret')": "KeyError in line 2",
    "raise SystemExit(0)": "SystemExit in line 2",
    "return ['a', 'list']": "list instead of a mapping",
    "return {'sub': 'root'}": "the claim sub, which has a meaning of its own",
    "return {'a b': 1}": "a name that no claim can have",
    "return {'x': float('nan')}": "ValueError",
    "return {'x': {1, 2}}": "TypeError",
    "return {'x': 'y' * 20_000}": "an answer of 20",
    "import os; os._exit(1)": "an answer that is too long, or none",
    "import os; os.write(3, b'{' * 99_999)": "an answer that is too long, or none",
    "return bytearray(1 << 30)": "MemoryError in line 2",
    "while True: pass": "no answer within 1 s",
}
FILES = {
    **{
        f"def claims(user, client, api, scopes):\n    {b}\n": received
        for b, received in BODIES.items()
    },
    "def claims(": "SyntaxError in line 1",
    "x = 1": "KeyError",
    "import no_such_module": "ModuleNotFoundError in line 1",
}


def test_failing_claims_file_refuses_the_token_and_keeps_the_code(tmp_path: Path) -> None:
    async def story() -> None:
        async with _server(tmp_path, GOOD) as it:
            await it.client("app", access_token_format="reference")
            code = await it.code("app")
            for text, received in FILES.items():
                (tmp_path / "claims.py").write_text(text)
                fault = await _refused(it, await it.exchange("app", code))
                assert fault.startswith(received), text
                assert "vk_cs_secret" not in fault
            (tmp_path / "claims.py").write_text(GOOD)
            assert (await it.exchange("app", code)).status == 200

    asyncio.run(story())


HANGS_FOR_MALLORY = """
import os
started = os.getpid()
def claims(user, client, api, scopes):
    if user["username"] == "mallory":
        if "email" in scopes:
            raise ValueError
        while True: pass
    return {"process": started}
"""


def test_claims_failure_of_one_user_does_not_affect_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with _server(tmp_path, HANGS_FOR_MALLORY) as it:
            record = UserRecord("mallory", "mallory@example.com", "Mallory")
            accounts, now = it.foundation.accounts(), it.clock.now
            mallory = await it.write(lambda tx: accounts.register(tx, record, now))
            assert isinstance(mallory, User)
            await it.client("app", scopes=("openid", "profile", "email", "phone"))

            async def process_of_ada(scope: str) -> object:
                tokens = await it.exchange("app", await it.code("app", scope))
                return _said(tokens.text("id_token"))["process"]

            before = await process_of_ada("openid")
            raising = await it.code("app", "openid email", uid=mallory.uid)
            fault = await _refused(it, await it.exchange("app", raising))
            assert fault.startswith("ValueError in line 7")
            assert await process_of_ada("openid profile") == before, "an error ends no process"
            hanging = await it.code("app", "openid profile", uid=mallory.uid)
            codes = [await it.code("app", "openid email") for _ in range(3)]
            # One of many attempts reaches the function; those behind it are answered.
            tries = [it.exchange("app", hanging) for _ in range(8)]
            answers = await asyncio.gather(*tries, *(it.exchange("app", code) for code in codes))
            assert {answer.status for answer in answers[:8]} == {503}
            assert {answer.status for answer in answers[8:]} == {200}
            after = await process_of_ada("openid phone")
            assert after != before
            fault = await _refused(it, await it.exchange("app", hanging))
            assert fault.startswith("a call that hung or crashed; the next try is in")
            assert await process_of_ada("openid profile email") == after, "it was not called"

    asyncio.run(story())
