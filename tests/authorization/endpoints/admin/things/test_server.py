"""Keys, settings, registration, mail and programs in administration."""

import re
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.authorization.endpoints.admin_api.programs import Caller
from tests.support.harness import Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import MailDispatched, MailGivenUp
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.settings import CHANGE_SETTING, SettingWanted
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings, MailTransport


async def _in_german(browser: Browser, form: Answer, **typed: str) -> str:
    """Submit invalid values from a browser set to German; return the page with the errors."""
    action, shown = form.form("do")
    wrong = await browser.post(action, {**shown, **typed}, {"accept-language": "de"})
    assert wrong.status == 400
    return wrong.body


def test_keys_are_rotated_and_withdrawn(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await it.client("web")
        tokens = await it.tokens("web")
        before = it.foundation.keys
        await before.refresh(it.clock.now, surely=True)
        old = before.current(it.clock.now).kid
        answer = await do(browser, "/admin/keys/rotate", at_once="true")
        assert answer.location == "/admin/keys?done=rotate"
        shown = await page(browser, "/admin/keys")
        assert "Retiring" in shown.body
        assert old in shown.body
        one = await page(browser, f"/admin/keys/{old}")
        assert "No longer signs." in one.body
        assert "Published until" in one.body
        assert "<code>signing_key.retired</code>" in one.body
        assert f'"/admin/keys/{old}/withdraw"' in one.body
        assert (await it.introspect(tokens.text("access_token")))["active"] is True
        withdrawn = await do(browser, f"/admin/keys/{old}/withdraw")
        assert withdrawn.location == "/admin/keys?done=withdraw"
        assert (await it.introspect(tokens.text("access_token")))["active"] is False
        assert old not in (await page(browser, "/admin/keys")).body
        assert (await browser.get(f"/admin/keys/{old}")).status == 404
        assert (await browser.get("/admin/keys/%C3%A4")).status == 404
        records = await it.read(lambda tx: tx.events.newest(50))
        by = {record.name: record.done_by for record in records}
        assert by["signing_key.withdrawn"] == "user 1001"

    run(tmp_path, story)


def test_keys_are_shown_to_auditors_without_their_operations(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        listed = await page(browser, "/admin/keys")
        assert "/admin/keys/rotate" not in listed.body
        for kid in set(re.findall(r'href="/admin/keys/([^"/]+)"', listed.body)):
            one = await page(browser, f"/admin/keys/{kid}")
            assert "<code>signing_key.issued</code>" in one.body
            assert "/admin/keys/rotate" not in one.body
            assert f"/admin/keys/{kid}/withdraw" not in one.body

    run(tmp_path, story)


def test_settings_are_read_with_their_origin_and_no_secret(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        shown = await page(browser, "/admin/settings")
        assert "Lifetime of access tokens" in shown.body
        assert "the credential of this test" not in shown.body

    run(tmp_path, story)


def test_settings_are_searched_and_show_when_a_change_takes_effect(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        for words, effect in (
            ("LIMITS requests", "A change there takes effect when you run"),
            ("authorization listen", "A change takes effect after a restart."),
            ("Monitoring slow", "Log statements that take longer than"),
        ):
            shown = await browser.get("/admin/settings", q=words)
            assert effect in " ".join(shown.body.split())
            assert "password_argon2" not in shown.body
        none = await browser.get("/admin/settings", q='"><script> nothing')
        assert "No settings found" in none.body
        assert "<script> nothing" not in none.body
        assert "No settings found" in (await browser.get("/admin/settings", show="set")).body
        setting = SettingWanted("open")
        await it.perform(CHANGE_SETTING, {"setting": "registration.mode"}, setting)
        changed = (await browser.get("/admin/settings", show="set")).body
        assert "1 changed" in changed
        assert "Any app" in changed
        german = await browser.get("/admin/settings", q="Zertifikat KETTE", ui_locales="de")
        assert "PEM-Datei mit dem Zertifikat und seiner Kette" in german.body
        assert "PEM file" not in german.body

    run(tmp_path, story)


def test_settings_are_edited_with_units_and_labels(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for path, typed, words in (
            ("tokens.access_token_lifetime", {"value": "30", "unit": "m"}, "30 minutes"),
            ("tokens.access_token_lifetime", {"value": "20 min", "unit": "h"}, "20 minutes"),
            ("accounts.sign_up", {"value": "open"}, "Anyone with an email address"),
            ("privacy.record_ip_addresses", {"value": "false"}, "Off"),
            ("device.wrong_codes", {"value": "7"}, "7 codes"),
            ("portal.grant_types", {"value": ["refresh_token"]}, "(refresh tokens)"),
        ):
            answer = await do(browser, f"/admin/settings/{path}/edit", **typed)
            assert (answer.location or "").endswith(f"#{path}")
            settings_page = await browser.get("/admin/settings", q=path)
            assert words in settings_page.body
            assert 'by <a href="/admin/users/1001"><bdi>ada</bdi></a>' in settings_page.body
            action = f'action="/admin/settings/{path}/reset"'
            assert action in settings_page.body
            csrf = settings_page.body.split(action)[1].split('value="')[1].split('"')[0]
            reset = await browser.post(f"/admin/settings/{path}/reset", {"csrf": csrf})
            assert (reset.location or "").endswith(f"#{path}")
            assert action not in (await browser.get("/admin/settings", q=path)).body

    run(tmp_path, story)


def test_invalid_lifetime_is_refused_with_the_allowed_range(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        lifetime = "/admin/settings/tokens.access_token_lifetime/edit"
        for value, unit in (("2", "d"), ("", "h"), ("soon", "m"), ("30", "weeks"), ("-1", "s")):
            wrong = await do(browser, lifetime, value=value, unit=unit)
            assert wrong.status == 400, (value, unit)
            assert "From 1 second to 1 day." in wrong.body
            assert "Enter a whole number in this range." in wrong.body
        assert not await it.read(lambda tx: tx.stored_settings.all())

    run(tmp_path, story)


def test_entries_of_a_list_are_added_and_removed_without_a_script(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        path = "/admin/settings/registration.metadata_document_hosts/edit"
        form = await page(browser, path)
        action, typed = form.form("do")
        again = await browser.post(action, {**typed, "value": "a.example", "add": "value"})
        assert again.status == 200
        assert again.body.count('name="value"') == 2
        several = {**typed, "value": ["a.example", "b.example", ""]}
        less = await browser.post(action, {**several, "remove": "value/0"})
        assert 'value="a.example"' not in less.body
        assert 'value="b.example"' in less.body
        for odd in ("9", "value/9", "value/-1", "value/x", "value/" + "9" * 500):
            assert (await browser.post(action, {**several, "remove": odd})).status == 200
        assert not await it.read(lambda tx: tx.stored_settings.all())
        await browser.post(action, several)
        stored = await it.read(lambda tx: tx.stored_settings.all())
        assert list(stored.values()) == ["a.example,b.example"]

    run(tmp_path, story)


def test_brand_is_edited_and_validated_in_the_console(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        form = await page(browser, "/admin/settings/brand")
        wrong = await _in_german(browser, form, name="Acme", accent="red", terms_url="x")
        assert 'value="Acme"' in wrong
        assert "eine Farbe an, etwa #2456d6." in wrong
        assert "eine URL an, die mit https:// beginnt." in wrong
        answer = await do(browser, "/admin/settings/brand", name="Acme", accent="#aa3300")
        assert answer.location == "/admin/settings/brand?saved=1"
        own = await it.read(lambda tx: tx.brand.all())
        assert set(own.values()) == {"Acme", "#aa3300"}
        browser.language = "de"
        shown = (await page(browser, "/admin/settings/brand")).body
        assert re.findall(r"Kontrast (\S+\d)", shown)[0] == "6,6"
        assert "4.5" not in shown

    run(tmp_path, story)


def test_invitations_are_issued_shown_once_and_withdrawn(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        new = "/admin/registration/new"
        form = await page(browser, new)
        wrong = await _in_german(browser, form, note="For Ada", uses="0", lifetime="x")
        assert 'value="For Ada"' in wrong
        assert wrong.count('role="alert"') == 2
        assert "ganze Zahl von <bdi>1</bdi> bis <bdi>1000000</bdi> ein" in wrong
        made = await do(browser, new, note="For Ada", uses="2", lifetime="3", lifetime_unit="86400")
        assert re.search(r"vk_in_\w{49}", made.body)
        shown = await page(browser, "/admin/registration")
        assert "For Ada" in shown.body
        assert not re.search(r"vk_in_\w{49}", shown.body)
        (invitation,) = await it.read(lambda tx: tx.invitations.usable(it.clock.now))
        assert invitation.uses_left == 2
        assert invitation.expires_at == it.clock.now + 3 * 86_400
        at = f"/admin/registration/invitations/{invitation.id}/withdraw"
        assert at in shown.body
        answer = await do(browser, at)
        assert answer.location == "/admin/registration?done=withdraw"
        assert (await browser.get(at)).status == 404
        assert not await it.read(lambda tx: tx.invitations.usable(it.clock.now))

    run(tmp_path, story)


def test_mail_page_shows_that_email_is_disabled(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        shown = await page(browser, "/admin/mail")
        assert "Email is disabled" in shown.body

    run(tmp_path, story)


def test_emails_are_listed_by_the_names_of_their_kinds(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def happen(tx: Transaction) -> None:
            tx.events.add(MailDispatched(None, EmailKind.VERIFY_EMAIL, 1), now)
            tx.events.add(MailGivenUp(1001, "of_another_version", 9, "no connection"), now)

        await it.write(happen)
        browser = await administrator(it)
        shown = (await page(browser, "/admin/mail")).body
        assert "Email verification" in shown
        assert "verify_email" not in shown
        assert "<bdi>of_another_version</bdi></code>" in shown
        german = await browser.get("/admin/mail", ui_locales="de")
        assert "Bestätigung der E-Mail-Adresse" in german.body

    box = MailSettings(transport=MailTransport.MAILBOX)
    run(tmp_path, story, mail=box)


def test_api_token_is_issued_used_and_revoked(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.ADMINISTRATOR)
        form = await page(browser, "/admin/tokens/new")
        assert 'value="roles"' not in form.body
        wrong = await _in_german(browser, form, name="Report", lifetime="366")
        assert 'value="Report"' in wrong
        assert "von einer Sekunde bis zu einem Jahr" in wrong
        assert "Darf nicht leer sein." in wrong
        made = await browser.submit(
            form, "do", name="Report", lifetime="30", permissions=["read", "clients"]
        )
        token = made.body.partition('<code id="token">')[2].partition("<")[0]
        one = Caller(it, token)
        assert (await one.call("GET", "/token")).json["permissions"] == ["clients", "read"]
        shown = await page(browser, "/admin/tokens")
        assert token not in shown.body
        address = "/admin/tokens/at_" + shown.body.split('href="/admin/tokens/at_')[1].split('"')[0]
        live = await page(browser, address)
        assert "Manage, disable and verify apps" in live.body
        assert "Manage, disable and delete users" not in live.body
        assert f'"{address}/end"' in live.body
        answer = await do(browser, f"{address}/end")
        ended = await page(browser, address)
        assert "Revoked" in ended.body
        assert f'"{address}/end"' not in ended.body
        for unknown in ("at_none", "%C3%A4", "a%00"):
            assert (await browser.get(f"/admin/tokens/{unknown}")).status == 404
        assert answer.location == "/admin/tokens?done=end"
        assert (await one.call("GET", "/token")).status == 401
        wider = await browser.post(
            "/admin/tokens/new",
            {**form.form("do")[1], "name": "x", "lifetime": "1", "permissions": ["roles"]},
            {"origin": "http://localhost:8400"},
        )
        assert wider.status == 400

    run(tmp_path, story)


def test_sensitive_operations_require_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        await page(browser, "/admin")
        form = await page(browser, "/admin/keys/rotate")
        it.clock.forward(11 * 60)
        await page(browser, "/admin/keys")
        for path in (
            "/admin/keys/rotate",
            "/admin/tokens/new",
            "/admin/events/export",
            "/admin/clients/web/secret",
            "/admin/clients/web/delete",
        ):
            answer = await browser.get(path)
            assert answer.location.startswith("/account/confirm"), path
        late = await browser.submit(form, "do", at_once="true")
        assert late.location.startswith("/account/confirm")
        assert "signing_key.retired" not in [
            event.name for event in await it.read(lambda tx: tx.events.newest(50))
        ]

    run(tmp_path, story)
