"""The console's forms that follow from an operation: lists with a row for each entry."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.cases import case
from tests.support.english import english_on
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Answer
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

APP = "/admin/clients/web"
EDIT = f"{APP}/edit"
LISTS = (
    (EDIT, "redirect_uris"),
    (EDIT, "default_scopes"),
    ("/admin/clients/new?kind=server", "redirect_uris"),
    (EDIT, "exchanges_for"),
    ("/admin/apis/new", "machine_scopes"),
    ("/admin/apis/new", "scopes"),
    ("/admin/apis/new", "roles"),
    ("/admin/claims/new", "clients"),
    ("/admin/webhooks/new", "events"),
    ("/admin/providers/new?preset=openid", "scopes"),
    ("/admin/settings/registration.metadata_document_hosts/edit", "value"),
)
"""A form of each kind of object, with a list in it."""


async def web(it: Harness) -> Client:
    client = await it.read(lambda tx: tx.clients.find("web"))
    assert client is not None
    return client


def rows(answer: Answer, name: str) -> list[str]:
    """Return what the rows of a list hold."""
    inputs = re.findall(rf'<input[^>]*name="{name}"[^>]*>', answer.body)
    return [unescape(re.findall(r'value="([^"]*)"', tag)[0]) for tag in inputs]


def fault_of(answer: Answer, name: str, number: int) -> str:
    """Return what is said of a row, counted from 0, that is marked as invalid."""
    field_id = f"{name.replace('_', '-')}-{number + 1}"
    (row,) = re.findall(rf'<input id="{field_id}"[^>]*>', answer.body)
    match = re.search(rf'<p class="message" id="{field_id}-fault"[^>]*>(.*?)</p>', answer.body)
    assert ("aria-invalid" in row) == (match is not None)
    assert match is None or f'aria-describedby="{field_id}-fault"' in row
    return unescape(match[1]) if match else ""


@pytest.mark.parametrize(("path", "name"), LISTS)
def test_entries_of_every_list_are_added_and_removed_without_a_script(
    path: str, name: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        form_page = await page(browser, path)
        action, shown = form_page.form("do")
        had = [entry for entry in shown[name] if entry]
        assert rows(form_page, name) == [*had, ""]
        # The return key presses the first button of a form: it is none that removes.
        first = re.findall(r"<button[^>]*>", form_page.body.partition(f'action="{action}"')[2])[0]
        assert "by-return" in first
        assert "name=" not in first
        before = await it.events()
        typed = {**shown, name: [*had, "one", "two", ""]}
        more = await browser.post(action, {**typed, "add": name})
        assert more.status == 200
        assert rows(more, name) == [*had, "one", "two", ""]
        assert more.body.count("autofocus") == 1
        less = await browser.post(action, {**typed, "remove": f"{name}/{len(had)}"})
        assert rows(less, name) == [*had, "two", ""]
        for odd in ("9", f"{name}/99", f"{name}/-1", f"{name}/x", f"{name}/" + "9" * 500):
            same = await browser.post(action, {**typed, "remove": odd})
            assert (same.status, rows(same, name)) == (200, [*had, "one", "two", ""]), odd
        assert await it.events() == before

    run(tmp_path, story)


def test_error_is_shown_at_the_invalid_row(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        before = metadata_of(await web(it))
        uris = ["https://a.example/cb", "http://evil.example/cb", "https://b.example/cb", ""]
        refused = await do(browser, EDIT, redirect_uris=uris)
        assert refused.status == 400
        assert rows(refused, "redirect_uris") == uris
        faults = [fault_of(refused, "redirect_uris", number) for number in range(4)]
        assert faults[0] == faults[2] == faults[3] == ""
        assert "http is only for 127.0.0.1" in faults[1]
        # Empty rows before it are left out, of the form and of the count.
        refused = await do(browser, EDIT, default_scopes=["", before.scopes[0], "", "no:thing"])
        assert rows(refused, "default_scopes") == [before.scopes[0], "no:thing", ""]
        assert not fault_of(refused, "default_scopes", 0)
        assert fault_of(refused, "default_scopes", 1)
        # So is an entry that the type of the input refuses.
        refused = await do(
            browser, "/admin/apis/new", name="A", identifier="https://a.example/", roles=["ok", "ä"]
        )
        assert refused.status == 400
        assert not fault_of(refused, "roles", 0)
        assert fault_of(refused, "roles", 1)
        assert metadata_of(await web(it)) == before

    run(tmp_path, story, database_url)


def test_many_entries_are_edited_in_a_text_area(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        many = "\r\n".join(f"scope{number}" for number in range(70))
        api = {"name": "A", "identifier": "https://a.example/", "machine_scopes": many}
        made = await do(browser, "/admin/apis/new", **api)
        assert made.status == 303, made.body
        path = f"{made.location.partition('?')[0]}/edit"
        shown = await page(browser, path)
        assert rows(shown, "machine_scopes") == []
        assert rows(shown, "roles") == [""]
        assert "scope69</textarea>" in shown.body
        saved = await browser.submit(shown, "do", name="B")
        assert saved.status == 303
        assert knows(await page(browser, path), "scope69</textarea>")

    run(tmp_path, story, database_url)


REFERENCES = (
    ("/admin/clients/new?kind=browser", "required_groups"),
    (EDIT, "required_groups"),
    (EDIT, "exchanges_tokens_of"),
    (EDIT, "exchanges_for"),
    ("/admin/apis/new", "clients"),
    ("/admin/apis/new", "required_groups"),
    ("/admin/claims/new", "clients"),
    ("/admin/claims/new", "apis"),
    ("/admin/groups/new", "parent"),
    ("/admin/users/new", "groups"),
    ("/admin/signal-streams/new", "client_id"),
)
"""A form of each kind of object, with a field that names others."""


@pytest.mark.parametrize(("path", "name"), REFERENCES)
def test_fields_that_name_objects_offer_them_and_refuse_unknown_ones(
    path: str, name: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff", description="All employees")
        api = {"name": "Calendar", "identifier": "https://calendar.example/"}
        assert (await do(browser, "/admin/apis/new", **api)).status == 303
        form_page = await page(browser, path)
        list_id = f"{name.replace('_', '-')}-options"
        assert f'list="{list_id}"' in form_page.body
        options = form_page.body.partition(f'<datalist id="{list_id}">')[2].partition(
            "</datalist>"
        )[0]
        (value,) = {"staff", "web", "https://calendar.example/"} & set(
            re.findall(r'value="([^"]*)"', options)
        )
        assert value
        before = await it.events()
        for odd in ("nothing like it", "\u202eweb", "x" * 600):
            refused = await do(browser, path, **{name: odd})
            assert refused.status == 400, odd
            assert "Must be " in refused.body
            assert 'aria-invalid="true"' in refused.body
            assert await it.events() == before

    run(tmp_path, story)


def test_unique_object_names_are_replaced_by_ids(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        for client_id, name in (("one", "Printer"), ("two", "Scanner"), ("three", "scanner")):
            await it.client(client_id)
            saved = await do(await administrator(it), f"/admin/clients/{client_id}/edit", name=name)
            assert saved.status == 303, saved.body
        browser = await administrator(it)
        api = {"name": "Calendar", "identifier": "https://calendar.example/"}
        assert (await do(browser, "/admin/apis/new", **api)).status == 303
        saved = await do(
            browser, EDIT, exchanges_tokens_of=["printer", "two"], exchanges_for="Calendar"
        )
        assert saved.status == 303, saved.body
        metadata = metadata_of(await web(it))
        assert metadata.exchanges_tokens_of == ("one", "two")
        assert metadata.exchanges_for == ("https://calendar.example/",)
        # The form shows what an ID names.
        shown = await page(browser, EDIT)
        assert rows(shown, "exchanges_tokens_of") == ["one", "two", ""]
        assert knows(shown, '<p class="hint" id="exchanges-tokens-of-1-hint">Printer</p>')
        # Two apps have the name, so it means none of them.
        refused = await do(browser, EDIT, exchanges_tokens_of=["one", "SCANNER"])
        assert refused.status == 400
        assert rows(refused, "exchanges_tokens_of") == ["one", "SCANNER", ""]
        fault = fault_of(refused, "exchanges_tokens_of", 1)
        assert fault == "Must be a client ID: several apps have this name."
        assert metadata_of(await web(it)) == metadata

    run(tmp_path, story, database_url)


def test_reference_to_a_deleted_client_can_only_be_kept(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("one")
        browser = await administrator(it)
        assert (await do(browser, EDIT, exchanges_tokens_of="one")).status == 303
        assert (await do(browser, "/admin/clients/one/delete")).status == 303
        saved = await do(browser, EDIT, description="Later")
        assert saved.status == 303, saved.body
        assert metadata_of(await web(it)).exchanges_tokens_of == ("one",)
        # It cannot be added again.
        assert (await do(browser, EDIT, exchanges_tokens_of="")).status == 303
        assert (await do(browser, EDIT, exchanges_tokens_of="one")).status == 400

    run(tmp_path, story, database_url)


def test_invited_user_joins_the_entered_groups(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for name in ("staff", "crew"):
            await do(browser, "/admin/groups/new", name=name)
        person = {"username": "grace", "email": "grace@example.com", "password_link": ""}
        made = await do(browser, "/admin/users/new", **person, groups=["staff", "", "crew"])
        assert made.status == 303, made.body

        def groups(tx: Transaction) -> list[str]:
            user = tx.users.find_by_username("grace")
            assert user is not None
            return sorted(tx.groups.direct_names(user.uid))

        assert await it.read(groups) == ["crew", "staff"]

    run(tmp_path, story, database_url)


def labels(answer: Answer) -> list[str]:
    """Return the titles of the sections and the labels of the fields, in order."""
    form = answer.body.partition('id="do"')[0].partition("<h1>")[2]
    matches = re.findall(r"<(label|legend|strong)[^>]*>(.*?)</\1>", form, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", "", text).split()) for _, text in matches]


@pytest.mark.parametrize("kind", ["server", "browser", "device", "machine"])
def test_app_is_registered_and_edited_by_the_same_form(kind: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        new = await page(browser, f"/admin/clients/new?kind={kind}")
        fields = {"name": "Notes", "tos_uri": "https://notes.example/terms"}
        if kind != "machine":
            fields["redirect_uris"] = "http://127.0.0.1:3000/cb"
        made = await browser.submit(new, "do", **fields)
        assert made.status == 200, made.body
        client_id = made.body.partition('<code id="client-id">')[2].partition("<")[0]
        edit = await page(browser, f"/admin/clients/{client_id}/edit")
        # The new row of an entry aside.
        assert [label for label in labels(edit) if label != "Redirect URIs 2"] == labels(new)
        assert edit.form("do")[1]["tos_uri"] == ["https://notes.example/terms"]
        # A form that is only submitted changes nothing.
        before = await it.events()
        assert (await browser.submit(edit, "do")).status == 303
        assert await it.events() == before

    run(tmp_path, story)


def test_refused_registration_keeps_input_and_resubmission_registers_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        new = await page(browser, "/admin/clients/new?kind=server")
        typed = {"name": "Notes", "policy_uri": "https://notes.example/privacy"}
        refused = await browser.submit(new, "do", **typed, redirect_uris="http://evil.example/cb")
        assert refused.status == 400
        assert "http is only for 127.0.0.1" in fault_of(refused, "redirect_uris", 0)
        action, shown = refused.form("do")
        assert shown["policy_uri"] == [typed["policy_uri"]]
        fixed = {**shown, "redirect_uris": ["https://notes.example/cb", ""]}
        made = await browser.post(action, fixed)
        assert made.status == 200, made.body
        again = await browser.post(action, fixed)
        assert again.location == f"/admin/clients/{shown['client_id'][0]}"
        events = await it.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        mine = [event.name for event in events if event.client_id == shown["client_id"][0]]
        assert mine.count("client.registered") == 1

    run(tmp_path, story)


USERS = (
    ("/admin/roles", "give-options"),
    ("/admin/groups/staff", "add-options"),
    (APP, "add-options"),
    ("/admin/claims/preview", "users"),
)
"""A page with a field that takes a user, and the list of what it offers."""


@pytest.mark.parametrize(("path", "options"), USERS)
def test_field_of_a_user_offers_users_to_roles_that_may_change_something(
    path: str, options: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await it.client("web")
        await do(browser, "/admin/groups/new", name="staff")
        form_page = await page(browser, path)
        offered = form_page.body.partition(f'<datalist id="{options}">')[2].partition(
            "</datalist>"
        )[0]
        assert f'list="{options}"' in form_page.body
        assert '<option value="ada">' in offered
        # At most a hundred: others are typed.
        assert offered.count("<option") <= 100
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.AUDITOR, it.clock.now))
        if path != "/admin/claims/preview":
            assert f'id="{options}"' not in (await page(browser, path)).body

    run(tmp_path, story)


_API = {"name": "Calendar", "identifier": "https://api.example/"}
_CLAIM = {"name": "c", "in": "id_token"}
_WRONG: tuple[tuple[str, dict[str, str | list[str]], str], ...] = (
    (EDIT, {"redirect_uris": ["https://app.example/cb"] * 2}, "jeden Wert nur einmal"),
    (EDIT, {"grant_types": ["refresh_token"]}, "einen dieser Grant-Typen"),
    (EDIT, {"type": "public", "grant_types": ["client_credentials"]}, "vertrauliche Apps"),
    (EDIT, {"scopes": ["notes:read"], "required_scopes": ["openid"]}, "den Scopes der App"),
    (EDIT, {"assertion_audiences": ["x"]}, "die dortige Client-ID"),
    ("/admin/apis/new", {**_API, "identifier": "http://api.example/"}, "die vollständige URL"),
    (
        "/admin/apis/new",
        {**_API, "scopes": "openid", "text-scopes": "x"},
        "ein Scope dieses Servers",
    ),
    ("/admin/attributes/new", {"name": "a", "schema": '{"type": "x"}'}, "JSON-Schema kann nicht"),
    ("/admin/attributes/new", {"name": "a", "schema": "[]"}, "ein JSON-Objekt ein."),
    ("/admin/claims/new", {"name": "sub", "from": "groups", "in": "id_token"}, "Standard-Claim"),
    ("/admin/claims/new", {**_CLAIM, "from": "roles:", "argument": "x"}, "Kennung einer API"),
    ("/admin/claims/new", {**_CLAIM, "from": "email"}, "nur die Introspection-Antwort"),
    ("/admin/groups/staff/edit", {"parent": "staff"}, "nicht selbst enthalten"),
    ("/admin/webhooks/new", {"url": "http://hook.example/", "events": "user.enabled"}, "https://"),
    ("/admin/webhooks/new", {"url": "https://10.0.0.7/"}, "nur mit privaten Netzen"),
    ("/admin/signal-streams/new", {"client_id": "web", "url": "https://x.example:1/"}, "Port 443"),
    ("/admin/settings/registration.metadata_document_hosts/edit", {"value": "a b"}, "von Hosts"),
)
"""A form, what is entered, and a part of what the page says in German."""


def test_errors_are_shown_in_the_language_of_the_user(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        browser.language = "de"
        for path, typed, message in _WRONG:
            with case(path, typed):
                answer = await do(browser, path, **typed)
                assert answer.status == 400, answer.location
                faults = re.findall(r'<p class="message"[^>]*>(.*?)</p>', answer.body, re.DOTALL)
                assert any(message in unescape(fault) for fault in faults), faults
                assert not any('lang="en"' in fault for fault in faults), faults
                assert not list(english_on(f'<html lang="de">{" ".join(faults)}', "de"))

    run(tmp_path, story)
