"""The console edits apps by every field that an administrator may change, and their owners."""

import asyncio
from html import unescape
from pathlib import Path
from re import DOTALL, findall, sub

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Answer
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.client import Client, Editor
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.client_records import ClientChange
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.authorization.site.admin.clients.app_form import APP_CHOICES, APP_WORDS
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.storage.transaction import Transaction

APP = "/admin/clients/web"
EDIT = f"{APP}/edit"


async def web(it: Harness) -> Client:
    client = await it.read(lambda tx: tx.clients.find("web"))
    assert client is not None
    return client


def test_every_field_of_administrators_has_a_label() -> None:
    assert set(APP_WORDS) == {field.name for field in fields_of(Editor.ADMINISTRATOR)}
    assert all(label and label != name for name, (label, _) in APP_WORDS.items())


def test_every_choice_has_a_label() -> None:
    fields = {it.name: it for it in input_fields(ClientChange, APP_WORDS, {})}
    raw = {name: {value for value, _ in it.choices} for name, it in fields.items() if it.choices}
    worded_values = {name: {str(value) for value, _ in it} for name, it in APP_CHOICES.items()}
    assert raw == worded_values
    assert all(text != value for it in APP_CHOICES.values() for value, text in it)


def test_form_shows_labels_of_choices(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        form_page = await page(browser, EDIT)
        assert knows(form_page, "Confidential: it runs on a server and keeps a secret")
        assert knows(form_page, "Client credentials")
        saved = await do(
            browser, EDIT, id_token_claims="requested", access_token_format="reference"
        )
        assert saved.location == f"{APP}?done=edit"
        client = await web(it)
        assert client.openid.id_token_claims == "requested"
        assert metadata_of(client).access_token_format == "reference"

    run(tmp_path, story, database_url)


def sections(answer: Answer) -> dict[str, tuple[bool, str]]:
    """Return whether each section of the form is open, and what its header says of its fields."""
    summaries: dict[str, tuple[bool, str]] = {}
    for attributes, content in findall(
        r'<details class="settings"([^>]*)>\s*<summary>(.*?)</summary>', answer.body, DOTALL
    ):
        title, _, summary = content.partition("</strong>")
        title, summary = (unescape(sub("<[^>]*>", "", it)) for it in (title, summary))
        summaries[title.strip()] = "open" in attributes.split(), " ".join(summary.split())
    return summaries


def test_closed_sections_summarize_their_values(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        uris = "https://a.example/cb\nhttps://b.example/cb"
        fields = {"access_token_lifetime": "1", "unit-access_token_lifetime": "h"}
        fields["rotates_refresh_token"] = "yes"
        assert (await do(browser, EDIT, redirect_uris=uris, **fields)).status == 303
        shown = sections(await page(browser, EDIT))
        assert list(shown) == [
            "Sign-in and addresses",
            "Permissions",
            "Tokens",
            "Security",
            "Logo and links",
        ]
        assert not any(is_open for is_open, _ in shown.values())
        assert shown["Sign-in and addresses"][1] == "2 redirect URIs"
        assert "Access tokens last 1 hour" in shown["Tokens"][1]
        assert "Refresh tokens rotate" in shown["Tokens"][1]
        assert shown["Logo and links"][1] == "Not set"
        # One entry is shown itself.
        assert (await do(browser, EDIT, redirect_uris="https://a.example/cb")).status == 303
        shown = sections(await page(browser, EDIT))
        assert shown["Sign-in and addresses"][1] == "Redirect URIs: https://a.example/cb"

    run(tmp_path, story, database_url)


def test_sections_with_faults_or_changes_are_open_after_a_refusal(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        refused = await do(
            browser, EDIT, redirect_uris="javascript:alert(1)", policy_uri="https://a.example/p"
        )
        assert refused.status == 400
        opened = [title for title, (is_open, _) in sections(refused).items() if is_open]
        assert opened == ["Sign-in and addresses", "Logo and links"]
        assert 'value="https://a.example/p"' in refused.body
        # A conflict without a fault shows what was typed as well.
        form_page = await page(browser, EDIT)
        assert (await browser.submit(form_page, "do", description="first")).status == 303
        stale = await browser.submit(form_page, "do", tos_uri="https://a.example/t")
        assert knows(stale, "It was changed while you edited it.")
        opened = [title for title, (is_open, _) in sections(stale).items() if is_open]
        assert opened == ["Logo and links"]

    run(tmp_path, story, database_url)


def test_lifetime_has_a_unit_and_wrong_values_are_kept(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        for number, unit, seconds in (
            ("2", "h", 7_200),
            ("90", "s", 90),
            ("5", "m", 300),
            ("1,5", "h", 5_400),
            ("0.25", "h", 900),
            ("10 min", "h", 600),
            ("", "h", 0),
        ):
            fields = {"access_token_lifetime": number, "unit-access_token_lifetime": unit}
            assert (await do(browser, EDIT, **fields)).status == 303
            lifetime = metadata_of(await web(it)).access_token_lifetime
            assert (lifetime or 0) == seconds
        for number, unit in (
            ("soon", "h"),
            ("-1", "d"),
            ("1,500", "s"),
            ("1.5", "s"),
            ("9" * 5_000, "s"),
            ("5", "y"),
        ):
            fields = {"access_token_lifetime": number, "unit-access_token_lifetime": unit}
            refused = await do(browser, EDIT, **fields)
            assert refused.status == 400
            assert f'value="{number}' in refused.body
            if unit != "y":
                assert f'<option value="{unit}" selected' in refused.body
        assert metadata_of(await web(it)).access_token_lifetime is None

    run(tmp_path, story, database_url)


def test_lifetime_of_many_digits_without_a_unit_is_shown_as_typed() -> None:
    name, text = "access_token_lifetime", "9" * 5_000
    words = {name: APP_WORDS[name]}
    (field,) = input_fields(ClientChange, words, {name: text}, durations=(name,))
    assert (field.kind, field.value) == ("duration", text)


def test_app_is_edited(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        before = await web(it)
        # A form that is only submitted changes nothing.
        assert (await do(browser, EDIT)).location == f"{APP}?done=edit"
        assert metadata_of(await web(it)) == metadata_of(before)
        assert "client.changed" not in await it.events()
        answer = await do(
            browser,
            EDIT,
            name="Notes & Co",
            client_uri="https://notes.example",
            description="Prints notes.",
            redirect_uris="https://a.example/cb\r\n\r\nhttps://b.example/cb",
            access_token_lifetime="120",
        )
        assert answer.location == f"{APP}?done=edit", answer.body
        assert knows(await page(browser, answer.location), "The app is saved.")
        client = await web(it)
        assert (client.name, client.description) == ("Notes & Co", "Prints notes.")
        assert client.openid.client_uri == "https://notes.example"
        assert client.redirect_uris == ("https://a.example/cb", "https://b.example/cb")
        assert client.grant_types == before.grant_types
        assert "client.changed" in await it.events()

    run(tmp_path, story, database_url)


def test_invalid_values_are_refused_and_change_nothing(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        before = await web(it)
        for field, value, words in (
            ("name", "x" * 300, "visible characters"),
            ("redirect_uris", "http://evil.example/cb", "http is only for 127.0.0.1"),
            ("redirect_uris", "javascript:alert(1)", ""),
            ("redirect_uris", "https://a.example/#x", ""),
            ("client_uri", "ftp://x", ""),
            ("scopes", "nothing:known", ""),
            ("access_token_lifetime", "-1", ""),
            ("access_token_lifetime", "soon", "one second to one"),
            ("type", "secret", "Choose one of these values"),
            ("grant_types", "password", ""),
            ("grant_types", "magic", ""),
            ("description", "<script>alert(1)</script>" * 200, ""),
        ):
            refused = await do(browser, EDIT, **{field: value})
            assert refused.status == 400, (field, value)
            assert knows(refused, words), (field, value, refused.body)
            assert "<script>alert" not in refused.body
            assert metadata_of(await web(it)) == metadata_of(before), field

    run(tmp_path, story, database_url)


def test_parallel_edits_save_once_and_the_others_report_a_conflict(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        form_page = await page(browser, EDIT)
        answers = await asyncio.gather(
            *(browser.submit(form_page, "do", description=f"text {n}") for n in range(64))
        )
        saved = [answer for answer in answers if answer.status == 303]
        assert len(saved) == 1
        assert {answer.status for answer in answers} <= {303, 400, 503}
        conflict = next(answer for answer in answers if answer.status == 400)
        assert knows(conflict, "It was changed while you edited it.")

    run(tmp_path, story, database_url)


def test_owners_are_added_and_removed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        shown = await page(browser, APP)
        nobody = await browser.submit(shown, "add", person="nobody")
        assert knows(await page(browser, nobody.location.partition("#")[0]), "User not found.")
        added = await browser.submit(shown, "add", person="ada")
        assert added.location == f"{APP}?done=owner"

        def team(tx: Transaction) -> list[int]:
            return [member.uid for member in tx.members.team("web")]

        assert await it.read(team) == [ADA]
        removed = await do(browser, f"{APP}/remove-owner?uid={ADA}")
        assert removed.location == f"{APP}?done=remove-owner"
        assert await it.read(team) == []
        assert (await browser.get(f"{APP}/remove-owner?uid={ADA}")).status == 404
        assert {"team_member.added", "team_member.removed"} <= set(await it.events())

    run(tmp_path, story, database_url)


def test_support_edits_no_app(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it, Role.ADMINISTRATOR)
        form_page, shown = await page(browser, EDIT), await page(browser, APP)
        assert (await browser.post(EDIT, {"name": "x", "csrf": "x"})).status == 403
        now = it.clock.now
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.SUPPORT, now))
        assert (await browser.submit(form_page, "do", name="x")).status == 404
        assert (await browser.submit(shown, "add", person="ada")).status == 404
        assert "/edit" not in (await page(browser, APP)).body
        assert (await browser.get("/admin/clients/resource-server/edit")).status == 404

    run(tmp_path, story, database_url)
