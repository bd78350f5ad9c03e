"""Groups that an API requires: no token of a user who is in none of them, on both engines."""

from pathlib import Path

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.asgi import Answer
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.storage.transaction import Transaction

API = "https://calendar.example/mcp"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


def _refused(answer: Answer) -> None:
    assert answer.status == 400, answer.body
    assert answer.json["error"] == "invalid_grant"
    assert "none of the groups" in answer.text("error_description")


async def _code(it: Harness, api_id: str) -> str:
    api = await it.read(lambda tx: tx.apis.find(api_id))
    assert api is not None
    both = (("", 0), (api_id, api.generation))
    return await it.code("app", f"openid {api_id}#calendar:read", apis=both)


async def _exchanged(it: Harness, token: str) -> Answer:
    return await it.token(
        "relay",
        grant_type=_EXCHANGE,
        subject_token=token,
        subject_token_type=_TOKEN,
        resource=API,
    )


def test_required_group_is_checked_at_each_use_of_grant(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {
            "identifier": API,
            "name": "Calendar",
            "scopes": {"calendar:read": "see your calendar"},
            "required_groups": ["staff"],
        }
        made = await owner.call("POST", "/apis", body)
        assert made.status == 201, made.body
        assert made.json["required_groups"] == ["staff"]
        api_id = str(made.json["api_id"])
        await it.client("app", scopes=("openid", "notes:read"))
        await it.client(
            "relay", grant_types=(_EXCHANGE,), redirect_uris=(), exchanges_tokens_of=("app",)
        )

        async def member(method: str, group: str = "night") -> None:
            answer = await owner.call(method, f"/groups/{group}/members/{ADA}")
            assert answer.json == {"changed": True}, answer.body

        # The group does not exist, so it has no members.
        waiting = await _code(it, api_id)
        _refused(await it.exchange("app", waiting, resource=API))
        events = await it.events()
        assert "access_token.issued" not in events
        await owner.call("POST", "/groups", {"name": "staff"})
        await owner.call("POST", "/groups", {"name": "night", "parent": "staff"})
        _refused(await it.exchange("app", waiting, resource=API))
        await member("PUT")
        # Nothing was spent by the refusals.
        tokens = await it.exchange("app", waiting, resource=API)
        assert tokens.status == 200, tokens.body
        refresh_token, token = tokens.text("refresh_token"), tokens.text("access_token")
        assert (await _exchanged(it, token)).status == 200

        await member("DELETE")
        _refused(await it.refresh("app", refresh_token, resource=API))
        _refused(await _exchanged(it, token))
        # Another API of the grant is not closed.
        at_default = await it.refresh("app", refresh_token, resource=it.settings.audience)
        assert at_default.status == 200, at_default.body
        refresh_token = at_default.text("refresh_token")

        await member("PUT", "staff")
        etag = (await owner.call("GET", "/groups/staff")).headers["etag"]
        renamed = await owner.call(
            "PATCH", "/groups/staff", {"name": "team"}, headers={"if-match": etag}
        )
        assert renamed.status == 200, renamed.body
        shown = await owner.call("GET", f"/apis/{api_id}")
        assert shown.json["record"]["required_groups"] == ["team"]  # type: ignore[index]
        again = await it.refresh("app", refresh_token, resource=API)
        assert again.status == 200, again.body
        etag = shown.headers["etag"]
        await member("DELETE", "team")
        _refused(await it.refresh("app", again.text("refresh_token"), resource=API))
        opened = await owner.call(
            "PATCH", f"/apis/{api_id}", {"required_groups": []}, headers={"if-match": etag}
        )
        assert opened.status == 200, opened.body
        last = await it.refresh("app", again.text("refresh_token"), resource=API)
        assert last.status == 200, last.body

    run(tmp_path, story, database_url)


def test_group_whose_name_contains_another_is_not_renamed_with_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        body = {"identifier": API, "name": "C", "required_groups": ["a.staff", "staff-b", "x"]}
        assert (await owner.call("POST", "/apis", body)).status == 201

        def requiring(tx: Transaction) -> list[int]:
            return [len(tx.apis.requiring_group(name, 9)) for name in ("staff", "x", "a.staff")]

        assert await it.read(requiring) == [0, 1, 1]
        for wrong in (["a b"], [""], ["x"] * 51):
            other = {**body, "identifier": f"{API}/2", "required_groups": wrong}
            assert (await owner.call("POST", "/apis", other)).status == 400

    run(tmp_path, story)
