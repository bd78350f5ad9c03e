"""Refresh tokens at the edges; their rotation itself is told by the state machine."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import Harness, run
from valetkey.kernel.moment import days


def test_parallel_refreshes_get_the_same_successor(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("spa", type="public")
        token = (await it.tokens("spa")).text("refresh_token")
        answers = await asyncio.gather(*(it.refresh("spa", token) for _ in range(12)))
        assert {answer.status for answer in answers} == {200}
        assert len({answer.text("refresh_token") for answer in answers}) == 1
        events = await it.events()
        assert events.count("refresh_token.used") == 1
        assert events.count("refresh_token.repeated") == 11

    run(tmp_path, story, database_url)


def test_grant_revoked_meanwhile_leaves_no_valid_token(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("spa", type="public")
        for _ in range(5):
            tokens = await it.tokens("spa")
            token = tokens.text("refresh_token")
            answers = await asyncio.gather(
                *(it.refresh("spa", token) for _ in range(4)),
                it.token("spa", "/oauth/revoke", token=token),
                *(it.refresh("spa", token) for _ in range(4)),
            )
            assert {answer.status for answer in answers} <= {200, 400}
            for answer in answers:
                if answer.status == 200 and "access_token" in answer.json:
                    introspection = await it.introspect(answer.text("access_token"))
                    assert introspection == {"active": False}
                    (await it.refresh("spa", answer.text("refresh_token"))).refused(
                        400, "invalid_grant"
                    )

    run(tmp_path, story, database_url)


@pytest.mark.parametrize("token", ["x", "x.y", ".", "vk_rt_x.gr_1", "é.gr", ""])
def test_invalid_refresh_token_is_refused(tmp_path: Path, token: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        answer = await it.refresh("web", token)
        assert answer.json["error"] == ("invalid_grant" if token else "invalid_request")

    run(tmp_path, story)


def test_forged_refresh_token_for_a_grant_without_one_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("once", grant_types=("authorization_code",))
        await it.client("web")
        once = await it.tokens("once")
        assert "refresh_token" not in once.json
        grant_id = (await it.introspect(once.text("access_token")))["grant_id"]
        secret = (await it.tokens("web")).text("refresh_token").partition(".")[0]
        (await it.refresh("web", f"{secret}.{grant_id}")).refused(400, "invalid_grant")
        await it.write(
            lambda tx: tx.db.run("UPDATE grants SET client_id = 'web' WHERE id = :id", id=grant_id)
        )
        (await it.refresh("web", f"{secret}.{grant_id}")).refused(400, "invalid_grant")

    run(tmp_path, story)


def test_idle_refresh_token_is_refused_and_not_recorded_as_theft(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("refresh_token")
        it.clock.forward(it.settings.tokens.refresh_token_idle_lifetime)
        (await it.refresh("web", token)).refused(400, "invalid_grant")
        assert await it.events() == ["code.redeemed"]

    run(tmp_path, story)


def test_tokens_never_outlive_their_grant(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("refresh_token")
        life = it.settings.tokens.refresh_token_lifetime
        end, step = it.clock.now + life, days(20)
        while it.clock.now + step < end - 90:
            it.clock.forward(step)
            assert (await it.refresh("web", token)).json["expires_in"] == 3_600
        it.clock.forward(end - 90 - it.clock.now)
        assert (await it.refresh("web", token)).json["expires_in"] == 90
        it.clock.forward(90)
        (await it.refresh("web", token)).refused(400, "invalid_grant")

    run(tmp_path, story)


def test_another_resource_and_a_wider_scope_are_refused_and_end_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        token = (await it.tokens("web")).text("refresh_token")
        (await it.refresh("web", token, resource="https://o.example")).refused(
            400, "invalid_target"
        )
        (await it.refresh("web", token, scope="write")).refused(400, "invalid_scope")
        assert (await it.refresh("web", token)).status == 200

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("kind", "waits", "answered"),
    [
        ("public", 40, True),
        ("public", 119, True),
        ("public", 120, False),
        ("confidential", 40, True),
        ("confidential", 86_400, True),
        ("confidential", 30 * 86_400, False),
    ],
)
def test_lost_response_is_repeated_while_the_successor_is_unused(
    tmp_path: Path, database_url: str, kind: str, waits: int, answered: bool
) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", type=kind, rotates_refresh_token=kind != "public")
        first = (await it.tokens("app")).text("refresh_token")
        lost = await it.refresh("app", first)
        it.clock.forward(waits)
        again = await it.refresh("app", first)
        if not answered:
            again.refused(400, "invalid_grant")
            return
        assert again.text("refresh_token") == lost.text("refresh_token")
        # Once the successor was used, the first token shows that somebody else has it.
        assert (await it.refresh("app", again.text("refresh_token"))).status == 200
        (await it.refresh("app", first)).refused(400, "invalid_grant")
        assert "grant.revoked" in await it.events()

    run(tmp_path, story, database_url)


def test_another_client_gets_nothing_for_a_lost_response(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for name in ("one", "two"):
            await it.client(name, type="public")
        first = (await it.tokens("one")).text("refresh_token")
        successor = (await it.refresh("one", first)).text("refresh_token")
        it.clock.forward(40)
        (await it.refresh("two", first)).refused(400, "invalid_grant")
        assert (await it.refresh("one", first)).text("refresh_token") == successor

    run(tmp_path, story)


def test_lost_response_is_not_repeated_once_a_permanent_successor_was_used(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("app", rotates_refresh_token=True)
        first = (await it.tokens("app")).text("refresh_token")
        second = (await it.refresh("app", first)).text("refresh_token")
        path = "/clients/app"
        changed = await (await caller(it)).call(
            "PATCH", path, {"rotates_refresh_token": False}, headers={"if-match": "*"}
        )
        assert changed.status == 200, changed.body
        assert (await it.refresh("app", second)).text("refresh_token") == second
        (await it.refresh("app", first)).refused(400, "invalid_grant")
        assert "grant.revoked" in await it.events()

    run(tmp_path, story, database_url)
