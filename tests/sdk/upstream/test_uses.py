"""What apps use of what they may is noted on the way, and told once a minute."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.resource.api import Api, api
from tests.sdk.issuer import API, SECRET, Clock, Issuer
from tests.support.wait import until
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret
from valetkey.sdk import Caller, Credential, Gate
from valetkey.sdk.adapters.gate import Running
from valetkey.sdk.fetch import Fetcher
from valetkey.sdk.upstream.uses import MOST, Uses

NOW = Instant(1_800_000_000)
CALLER = Caller("1001", "web1", Scope.of("notes:read", "read"), "at_1", "gr_1", NOW, NOW)
CREDENTIAL = Credential("resource-server", Secret(SECRET))


@asynccontextmanager
async def closing(fetch: Fetcher) -> AsyncGenerator[Fetcher]:
    try:
        yield fetch
    finally:
        await fetch.close()


def _told(issuer: Issuer) -> list[tuple[str, str, int]]:
    return [(u["grant_id"], u["scope"], u["at"]) for report in issuer.uses for u in report["uses"]]


def test_each_used_scope_is_reported_once_for_each_grant(tmp_path: Path) -> None:
    async def story() -> None:
        async with api(tmp_path) as call:
            assert (await _report(call))[0]["uses"] == [], "the first says what is watched"
            assert "notes:write" in call.issuer.uses[0]["watches"]
            token = call.issuer.token("notes:read notes:write")
            assert (await call("GET", "/v2/notes", token=token)).status == 200
            made = await call("POST", "/v2/notes", {"title": "x"}, token=token)
            one = f"/v2/notes/{made.json['id']}"
            for _ in range(3):
                assert (await call("GET", one, token=token)).status == 200
            refused = call.issuer.token("notes:read")
            assert (await call("DELETE", one, token=refused)).status == 403
            call.issuer.uses.clear()
        # Whoever stops tells what waits.
        noted_uses = _told(call.issuer)
        assert {scope for _, scope, _ in noted_uses} == {"notes:read", "notes:write"}
        assert len(noted_uses) == len({(grant, scope) for grant, scope, _ in noted_uses})

    async def _report(call: Api) -> list[dict[str, Any]]:
        return await until(lambda: call.issuer.uses)

    asyncio.run(story())


def test_most_specific_held_scope_is_reported_and_client_tokens_are_not(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer, closing(Fetcher()) as fetch:
            uses = Uses(f"{issuer.url}/oauth/uses", fetch, CREDENTIAL, lambda: ("notes:read",))
            uses.record(CALLER, ("notes:read", "read"), NOW)
            uses.record(replace(CALLER, grant_id="gr_2"), ("notes:write", "read"), NOW)
            uses.record(replace(CALLER, grant_id=None), ("notes:read",), NOW)
            uses.record(CALLER, ("notes:read", "read"), Instant(NOW + 5))
            assert await uses.report(Instant(NOW + 5))
            assert _told(issuer) == [("gr_1", "notes:read", NOW + 5), ("gr_2", "read", NOW)]
            assert await uses.report(Instant(NOW + 60))
            assert len(issuer.uses) == 1, "no news, no report"
            assert await uses.report(Instant(NOW + hours(2)))
            assert issuer.uses[1] == {"watches": ["notes:read"], "uses": []}

    asyncio.run(story())


def test_uses_that_could_not_be_reported_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer, closing(Fetcher()) as fetch:
            uses = Uses(f"{issuer.url}/oauth/uses", fetch, CREDENTIAL, lambda: ())
            for number in range(MOST + 10):
                uses.record(replace(CALLER, grant_id=f"gr_{number}"), ("read",), NOW)
            issuer.broken = True
            assert not await uses.report(NOW)
            await issuer.stop()
            assert not await uses.report(NOW)
            issuer.broken = False
            await issuer.start()
            assert await uses.report(NOW)
            noted_uses = _told(issuer)
            assert len(noted_uses) == len(set(noted_uses)) == MOST
            assert max(len(report["uses"]) for report in issuer.uses) == 500

    asyncio.run(story())


def test_uses_of_a_cancelled_report_are_reported_on_close(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer, closing(Fetcher()) as fetch:
            uses = Uses(f"{issuer.url}/oauth/uses", fetch, CREDENTIAL, lambda: ())
            uses.record(CALLER, ("read",), NOW)
            reporting = asyncio.create_task(uses.report(NOW))
            await asyncio.sleep(0)
            reporting.cancel()
            await asyncio.wait([reporting])
            assert reporting.cancelled()
            await uses.close(NOW)
            assert set(_told(issuer)) == {("gr_1", "read", NOW)}

    asyncio.run(story())


def _gate(issuer: Issuer, *, reports_uses: bool = True) -> Gate:
    return Gate(
        issuer.url,
        audience=API,
        credential=CREDENTIAL,
        runtime=Runtime(issuer.clock.now, SYSTEM.random),
        reports_uses=reports_uses,
    )


def test_gate_reports_used_scopes_unless_reports_uses_is_false() -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer:
            for reports in (True, False):
                gate = _gate(issuer, reports_uses=reports)
                gate.needs(("notes:read", "notes:write"))
                running = Running(gate)
                token = issuer.token("notes:read")
                await running.admit([f"Bearer {token}"], "notes:write", "notes:read")
                with pytest.raises(Refused):
                    await running.admit([f"Bearer {token}"], "notes:write")
                await running.close()
                if reports:
                    assert issuer.uses[-1]["watches"] == ["notes:read", "notes:write"]
                    assert [scope for _, scope, _ in _told(issuer)] == ["notes:read"]
                    issuer.uses.clear()
            assert issuer.uses == []

    asyncio.run(story())


def test_uses_of_an_api_without_scopes_are_reported_too() -> None:
    async def story() -> None:
        async with Issuer(Clock()).running() as issuer:
            running = Running(_gate(issuer))
            await running.admit([f"Bearer {issuer.token('notes:read')}"])
            await running.close()
            assert issuer.uses[-1]["watches"] == [""]
            assert [scope for _, scope, _ in _told(issuer)] == [""]

    asyncio.run(story())
