"""Registering an app: its kinds, its faults beside their fields, its secret once."""

import re
from pathlib import Path

from tests.authorization.endpoints.developer.developers import (
    CALLBACK,
    WEB_APP,
    developer,
    found,
    join,
    registered,
    shown,
    text_of,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, run
from valetkey.authorization.actions.presets import PRESETS
from valetkey.authorization.model.client import (
    ApplicationType,
    AuthenticationMethod,
    ClientType,
    ProfileName,
    TeamRole,
)
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_EVERY = ["authorization_code", "refresh_token", "client_credentials"]


def test_app_kind_determines_client_type_and_secret(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        server, page = await registered(
            it,
            alice,
            "server",
            grant_types=["authorization_code", "refresh_token", "client_credentials"],
        )
        assert server.type is ClientType.CONFIDENTIAL
        assert server.authentication_method == AuthenticationMethod.CLIENT_SECRET
        assert server.requires_pkce
        assert server.profile_name is ProfileName.MODERN
        assert server.grant_types == {
            "authorization_code",
            "refresh_token",
            "client_credentials",
        }
        assert server.scope.names == ("openid", "notes:read")
        secret = shown(page, "client-secret")
        print_ = it.server.keyring.fingerprint_key.fingerprint(secret_purpose(server.id), secret)
        assert [client_secret.fingerprint for client_secret in server.secrets] == [print_]
        assert shown(page, "client-id") == server.id

        browser, page = await registered(it, alice, "browser", name="Pages")
        assert (browser.type, browser.application_type) == (ClientType.PUBLIC, ApplicationType.WEB)
        assert "client-secret" not in page.body
        device, _ = await registered(
            it,
            alice,
            "device",
            name="Pocket",
            redirect_uris=[CALLBACK, "com.example.app:/callback"],
        )
        assert device.is_native
        assert device.needs_pkce
        machine, page = await registered(it, alice, "machine")
        assert machine.grant_types == {"client_credentials"}
        assert machine.redirect_uris == ()
        assert shown(page, "client-secret").startswith("vk_cs_")

        apps = text_of(await alice.get("/developer"))
        for name in ("Printer", "Pages", "Pocket", "Robot"):
            assert name in apps
        team = await it.store.read(lambda tx: tx.members.team(server.id))
        assert [(one.uid, one.role) for one in team] == [(ALICE.uid, TeamRole.OWNER)]

    run(tmp_path, story, database_url)


def test_each_preset_is_listed_once_in_its_group_with_a_text_icon(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        chooser = (await (await developer(it)).get("/developer/new")).body
        parts = re.split(r"<h[23]>", chooser)[1:]
        listed = {
            part.partition("<")[0].strip(): re.findall(r"preset=([\w-]+)", part) for part in parts
        }
        assert {name: len(presets) for name, presets in listed.items()} == {
            "Web frameworks": 10,
            "Single-page apps": 1,
            "Mobile, desktop and command line": 3,
            "Products and proxies": 12,
            "Services": 1,
            "Something else": 0,
        }
        assert sorted(name for names in listed.values() for name in names) == sorted(PRESETS)
        marks = re.findall(r'class="glyph (\w+)"\s+aria-hidden="true">([^<]+)<', chooser)
        assert len(marks) == len(PRESETS)
        assert ("product", "Gr") in marks
        # No picture of a trademark.
        assert "<img" not in chooser.partition("<main")[2]

    run(tmp_path, story)


def test_every_preset_registers_unchanged_and_shows_its_configuration(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        chooser = (await alice.get("/developer/new")).body
        for preset in PRESETS.values():
            assert f"?kind={preset.kind}&amp;preset={preset.name}" in chooser
            form = await alice.get("/developer/new", kind=preset.kind, preset=preset.name)
            name = f"Built with {preset.name}"
            page = await alice.submit(form, "do", name=name)
            assert page.status == 200, text_of(page)
            client = await found(it, shown(page, "client-id"))
            assert client.redirect_uris == ((preset.redirect_uri,) if preset.redirect_uri else ())
            assert client.scope.names == preset.scopes
            assert client.grant_types == {*preset.metadata().grant_types}
            secret = "" if client.is_public else shown(page, "client-secret")
            for number, text in enumerate(preset.files.values(), 1):
                filled = shown(page, f"file-{number}")
                assert ("{client_id}" in text) == (client.id in filled)
                assert ("{client_secret}" in text) == (bool(secret) and secret in filled)
                assert not re.search(r"\{(app|issuer|random|redirect_uri)\}", filled)

    # One user registers one app for each.
    portal = PortalSettings(Registrants.EVERYONE, apps_per_person=len(PRESETS))
    run(tmp_path, story, portal=portal)


def test_preset_derives_the_logout_uri_from_the_redirect_uri(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server", preset="spring-boot")
        callback = "https://app.example/shop/login/oauth2/code/valetkey"
        page = await alice.submit(form, "do", name="Shop", redirect_uris=callback)
        client = await found(it, shown(page, "client-id"))
        assert client.openid.post_logout_redirect_uris == ("https://app.example/shop/",)
        assert not client.requires_pkce
        # A preset of another kind, or an unknown one, counts as none.
        for kind, preset in (("browser", "spring-boot"), ("server", "nonsense")):
            form = await alice.get("/developer/new", kind=kind, preset=preset)
            assert 'name="preset"' not in form.body

    run(tmp_path, story)


def test_second_submission_registers_nothing_and_shows_no_secret(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server")
        page = await alice.submit(form, "do", **WEB_APP)
        assert "vk_cs_" in page.body
        again = await alice.submit(form, "do", **WEB_APP)
        assert again.status == 303
        assert again.location == f"/developer/apps/{shown(page, 'client-id')}"
        assert await it.count("memberships") == 1
        assert "vk_cs_" not in (await alice.get(again.location)).body

    run(tmp_path, story, database_url)


FAULTS = (
    ("name", "", "visible characters"),
    ("name", "x" * 10_240, "at most 80 visible characters"),
    ("name", "Valetkey Support", "for the service itself"),
    ("name", "Prіnter", "letters of one alphabet"),
    ("name", "Print\u200bster", "visible characters"),
    ("description", "d" * 501, "at most 500"),
    ("redirect_uris", "", "Enter at least one redirect URI"),
    ("redirect_uris", "http://app.example/cb", "Use https"),
    ("redirect_uris", "https://app.example/*", "is not a wildcard"),
    ("redirect_uris", "https://app.example/#x", "Remove #"),
    ("redirect_uris", "HTTPS://App.example/", "in lower case"),
    ("redirect_uris", "https://app.example/a b", "Remove spaces"),
    ("redirect_uris", "https://münchen.example/", "xn--"),
    ("redirect_uris", "https://auth.example/cb", "belongs to this server"),
    ("redirect_uris", "com.example.app:/cb", "Only mobile and desktop apps"),
    ("redirect_uris", "https://app.example/" + "x" * 2_000, "at most 2,000"),
    ("redirect_uris", [CALLBACK, CALLBACK], "only once"),
    ("logo_uri", "javascript:alert(1)", "beginning with https://"),
    ("logo_uri", "data:image/png;base64,AA", "beginning with https://"),
    ("client_uri", 'https://evil" onclick=', "without quotes"),
    ("policy_uri", "http://app.example/", "beginning with https://"),
    ("tos_uri", "JAVASCRIPT:alert(1)", "beginning with https://"),
    ("scopes", "nonsense", "Choose one of the listed options"),
    ("scopes", "client:write", "Choose one of the listed options"),
    ("profile", "fapi9", "Choose one of these values"),
)
"""A field, what is typed into it, and what is said beside it."""


def test_invalid_values_are_reported_at_their_fields_and_input_is_kept(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server")
        for field, value, message in FAULTS:
            typed = {**WEB_APP, "description": "Prints notes", field: value}
            page = await alice.submit(form, "do", **typed)
            assert page.status == 400, field
            assert message in text_of(page), field
            assert 'value="Prints notes"' in page.body or field == "description"
            assert "<script>" not in page.body
        assert await it.count("memberships") == 0
        page = await alice.submit(form, "do", **{**WEB_APP, "logo_uri": "x"})
        corrected = await alice.submit(page, "do", logo_uri="")
        assert corrected.status == 200

    run(tmp_path, story)


def test_list_buttons_add_and_remove_redirect_uris_without_saving(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server")
        page = await alice.submit(form, "do", **WEB_APP, add="redirect_uris")
        assert page.status == 200
        assert page.form("do")[1]["redirect_uris"] == [CALLBACK, ""]
        page = await alice.submit(page, "do", remove="redirect_uris/0")
        assert page.form("do")[1]["redirect_uris"] == [""]
        assert page.form("do")[1]["name"] == ["Printer"]
        assert await it.count("memberships") == 0

    run(tmp_path, story)


def test_app_id_cannot_be_chosen(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server")
        for odd in ("web1", "app_" + "x" * 22, ""):
            page = await alice.submit(form, "do", **{**WEB_APP, "client_id": odd})
            assert page.location == "/developer/new"
        bob = await developer(it, "bob")
        ids = form.form("do")[1]
        theirs = await bob.get("/developer/new", kind="server")
        stolen = {"client_id": ids["client_id"], "mark": ids["mark"]}
        page = await bob.submit(theirs, "do", **WEB_APP, **stolen)
        assert page.location == "/developer/new"
        assert await it.count("memberships") == 0

    run(tmp_path, story)


def test_users_who_may_not_register_apps_see_the_reason(tmp_path: Path) -> None:
    async def refused(it: Harness, reason: str) -> None:
        alice = await developer(it)
        page = await alice.get("/developer/new", kind="server")
        assert reason in text_of(page)
        assert 'id="do"' not in page.body

    async def nobody(it: Harness) -> None:
        await refused(it, "registered by the operators only")

    async def invited(it: Harness) -> None:
        await refused(it, "You do not have permission to register apps")
        assert await it.store.write(lambda tx: tx.members.mark(ALICE.uid, it.clock.now))
        await registered(it, await developer(it))

    async def verified(it: Harness) -> None:
        await refused(it, "Verify your email address first")
        user = replace(ALICE, email_verified_at=Instant(1))
        assert await it.store.write(lambda tx: tx.users.change(user))
        await registered(it, await developer(it))

    async def full(it: Harness) -> None:
        alice = await developer(it)
        form = await alice.get("/developer/new", kind="server")
        await registered(it, alice)
        late = await alice.submit(form, "do", **{**WEB_APP, "name": "Second"})
        assert "You have reached the limit of" in text_of(late)
        await refused(it, "the limit of 1 app")
        assert await it.count("memberships") == 1

    for name, story, portal in (
        ("a", nobody, Registrants.NOBODY),
        ("b", invited, Registrants.INVITED),
        ("c", verified, Registrants.VERIFIED),
        ("d", full, PortalSettings(Registrants.EVERYONE, apps_per_person=1)),
    ):
        settings = portal if isinstance(portal, PortalSettings) else PortalSettings(portal)
        run(tmp_path / name, story, portal=settings)


def test_portal_settings_limit_grant_types_and_scopes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        kinds = await alice.get("/developer/new")
        assert "kind=machine" not in kinds.body
        form = await alice.get("/developer/new", kind="server")
        assert 'value="refresh_token"' not in form.body
        assert 'value="notes:write"' not in form.body
        assert 'value="openid"' in form.body
        wide = {**WEB_APP, "scopes": ["notes:read", "notes:write"]}
        page = await alice.submit(form, "do", **wide)
        assert page.status == 400
        client, _ = await registered(it, alice, grant_types=_EVERY)
        assert client.grant_types == {"authorization_code"}

    portal = PortalSettings(
        Registrants.EVERYONE, grant_types=("authorization_code",), scopes=("notes:read",)
    )
    run(tmp_path, story, portal=portal)


def test_app_list_includes_apps_of_a_member_with_the_role(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        assert "No apps yet" in text_of(await alice.get("/developer"))
        await join(it, "web1", ALICE, TeamRole.MEMBER)
        page = text_of(await alice.get("/developer"))
        assert "Notes Printer" in page
        assert "Member" in page

    run(tmp_path, story)
