"""APIs in the console: declared, edited, given secrets, disabled and deleted."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.test_input_form import fault_of, rows
from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.cases import case
from tests.support.harness import Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.model.user import Role

MCP = "https://mcp.example.com/mcp"
DECLARED: dict[str, str | list[str]] = {
    "identifier": MCP,
    "name": "Calendar",
    "scopes": ["calendar:read", "calendar:write", ""],
    "text-scopes": ["see your calendar", "change your calendar", ""],
    "machine_scopes": "calendar:sync",
    "clients": "any",
}


async def declared(browser: Browser) -> str:
    """Declare the API and return the address of its page."""
    answer = await do(browser, "/admin/apis/new", **DECLARED)
    assert answer.location.endswith("?done=new"), (answer.status, answer.body)
    return answer.location.partition("?")[0]


def test_api_is_declared_and_edited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("mobile")
        browser = await administrator(it)
        api_path = await declared(browser)
        shown = await page(browser, api_path)
        for text in (MCP, "see your calendar", "calendar:sync", "every app", "jwt", "ES256"):
            assert text in shown.body, text
        for query, listed in (("", True), ("?q=CALEN&sort=newest", True), ("?q=drive", False)):
            assert (api_path in (await page(browser, f"/admin/apis{query}")).body) == listed, query
        form = await page(browser, f"{api_path}/edit")
        assert rows(form, "scopes") == ["calendar:read", "calendar:write", ""]
        assert rows(form, "text-scopes") == ["see your calendar", "change your calendar", ""]
        assert MCP not in form.body
        changed = await browser.submit(
            form,
            "do",
            name="Diary",
            clients="web\r\nmobile",
            access_token_lifetime="1 min",
            access_token_format="reference",
            scopes=["", "calendar:read"],
            **{"text-scopes": [" ", "see all"]},
        )
        assert changed.location == f"{api_path}?done=edit", changed.body
        api = await it.read(lambda tx: tx.apis.find(api_path.rpartition("/")[2]))
        assert api is not None
        assert (api.name, api.access_token_lifetime) == ("Diary", 60)
        assert api.clients == frozenset({"web", "mobile"})
        assert (api.scopes, list(api.machine_scope)) == (
            {"calendar:read": "see all"},
            ["calendar:sync"],
        )
        # The form was shown before that change.
        stale = await browser.submit(form, "do", name="Other")
        assert stale.status == 400
        assert "changed while you edited it" in stale.body
        again = await browser.submit(stale, "do", name="Other")
        assert again.location == f"{api_path}?done=edit"

    run(tmp_path, story)


_INVALID_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("identifier", "http://mcp.example.com", "Enter the complete URL in lower case"),
    ("name", "", "Must not be empty."),
    ("name", "x" * 81, "visible characters"),
    ("access_token_lifetime", "soon", "one second to one day"),
    ("access_token_lifetime", "86401", "one second to one day"),
    ("access_token_format", "paper", "Choose one of these values"),
    ("clients", "a b", "Must be the name or client ID of an app."),
)


def test_invalid_field_is_shown_with_what_was_typed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for field, value, message in _INVALID_FIELDS:
            with case(field, value, message):
                answer = await do(browser, "/admin/apis/new", **{**DECLARED, field: value})
                assert answer.status == 400
                assert message in answer.body
                assert "see your calendar" in answer.body or field == "scopes"
                assert not await it.read(lambda tx: tx.apis.page("", 10))

    run(tmp_path, story)


def test_identifier_that_differs_in_a_slash_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        url = f"{MCP.rstrip('/')}/v1"
        for first, second in ((url, f"{url}/"), (f"{url}/2/", f"{url}/2")):
            values = {**DECLARED, "scopes": "", "text-scopes": "", "machine_scopes": ""}
            made = await do(browser, "/admin/apis/new", **{**values, "identifier": first})
            assert made.status == 303, made.body
            refused = await do(browser, "/admin/apis/new", **{**values, "identifier": second})
            assert refused.status == 400
            assert f"there is the API <bdi>{first}</bdi>" in refused.body

    run(tmp_path, story)


_WRONG_SCOPES: tuple[tuple[Sequence[str], Sequence[str], int, str], ...] = (
    (["a", "b"], ["see a"], 1, "and then its description"),
    (["a", ""], ["see a", "see b"], 1, "and then its description"),
    (["a", "a"], ["see a", "see b"], 1, "Enter each value only once"),
    (["a b"], ["see a"], 0, "a name without spaces"),
    (["a", "openid"], ["see a", "sign you in"], 1, "<bdi>openid</bdi> is a scope of this server"),
    (["a", "7"], ["see a", "x" * 2_000], 1, "visible characters"),
)
"""Names and descriptions, the row that is wrong, and what is said of it."""


@pytest.mark.parametrize(("names", "texts", "row", "said"), _WRONG_SCOPES)
def test_scope_that_is_wrong_is_marked_in_its_row(
    names: Sequence[str], texts: Sequence[str], row: int, said: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        typed = {"scopes": list(names), "text-scopes": list(texts)}
        answer = await do(browser, "/admin/apis/new", **{**DECLARED, **typed})
        assert answer.status == 400
        assert rows(answer, "scopes") == [*names, ""]
        assert rows(answer, "text-scopes")[: len(texts)] == list(texts)
        for number in range(len(names)):
            fault = fault_of(answer, "scopes", number)
            assert (said in fault) if number == row else not fault

    run(tmp_path, story)


def test_many_scopes_are_edited_in_a_text_area(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        many = "\r\n".join(f"scope{number} see number {number}" for number in range(40))
        # As the text area sends it.
        form_page = await page(browser, "/admin/apis/new")
        action, shown = form_page.form("do")
        typed = {**shown, **DECLARED, "scopes": many}
        del typed["text-scopes"]
        made = await browser.post(action, typed)
        assert made.status == 303, made.body
        shown_again = await page(browser, f"{made.location.partition('?')[0]}/edit")
        assert rows(shown_again, "scopes") == []
        assert "scope39 see number 39</textarea>" in shown_again.body
        assert "One per line" in shown_again.body
        assert (await browser.submit(shown_again, "do", name="B")).status == 303

    run(tmp_path, story)


def test_secret_is_issued_shown_once_and_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        api_path = await declared(browser)
        made = await do(browser, f"{api_path}/secret", others_live="")
        match = re.search(r'<code id="client-secret">(vk_cs_[^<]+)<', made.body)
        assert match is not None
        shown = (await page(browser, api_path)).body
        assert match[1] not in shown
        await do(browser, f"{api_path}/secret", others_live="86400")
        third = await do(browser, f"{api_path}/secret", others_live="86400")
        assert third.status == 400
        end = re.search(r'href="(/admin/apis/[^"]+/end-secret\?[^"]+)"', shown)
        assert end is not None
        answer = await do(browser, end[1])
        assert answer.location == f"{api_path}?done=end-secret"
        assert (await browser.get(end[1])).status == 404

    run(tmp_path, story)


def test_disabling_an_api_shows_lost_access_and_every_change_is_recorded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        api_path = await declared(browser)
        api_id = api_path.rpartition("/")[2]
        await it.client("web")
        await it.tokens("web")
        grant = (await it.read(lambda tx: tx.db.row("SELECT id FROM grants"))) or ("",)
        await it.write(lambda tx: tx.apis.grant(grant[0], [(api_id, 0)]))
        question = " ".join((await page(browser, f"{api_path}/disable")).body.split())
        assert "1 app loses access." in question
        assert "1 authorization ends" in question
        await do(browser, f"{api_path}/disable")
        shown = await page(browser, api_path)
        assert "Disabled" in shown.body
        assert f"{api_path}/enable" in shown.body
        await do(browser, f"{api_path}/enable")
        answer = await do(browser, f"{api_path}/delete")
        assert answer.location == "/admin/apis?deleted=1"
        assert (await browser.get(api_path)).status == 404
        for name in ("api.disabled", "api.enabled", "api.removed"):
            assert name in await it.events()

    run(tmp_path, story)


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.SUPPORT])
def test_reader_sees_api_and_may_change_nothing(tmp_path: Path, role: Role) -> None:
    async def story(it: Harness) -> None:
        api_path = await declared(await administrator(it))
        browser = await administrator(it, role)
        shown = (await page(browser, api_path)).body
        assert "Actions" not in shown
        assert f"{api_path}/edit" not in shown
        for path in (
            "/admin/apis/new",
            f"{api_path}/edit",
            f"{api_path}/secret",
            f"{api_path}/disable",
            f"{api_path}/delete",
        ):
            assert (await browser.get(path)).status == 404, path
        for path in ("ap_none", "%00", "%ff", "x" * 101, "ap_none/edit", "ap_none/disable"):
            assert (await browser.get(f"/admin/apis/{path}")).status == 404, path

    run(tmp_path, story)
