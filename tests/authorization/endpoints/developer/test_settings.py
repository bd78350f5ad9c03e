"""Changing an app: what was not asked about stays, what others changed meanwhile is told."""

from pathlib import Path

from tests.authorization.endpoints.developer.developers import (
    CALLBACK,
    WEB_APP,
    developer,
    found,
    join,
    registered,
    text_of,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.actions.clients import changed_fields
from valetkey.authorization.model.client import ProfileName, TeamRole
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

PRINTER = replace(WEB, scope=Scope.of("read", "write", "notes:read"))


def test_saved_settings_take_effect_and_the_event_names_the_actor(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/settings"
        page = await alice.get(path)
        it.clock.forward(minutes(1))
        done = await alice.submit(
            page,
            "do",
            name="Better Printer",
            redirect_uris=[CALLBACK, "http://localhost:3000/cb"],
            client_uri="https://app.example/",
            profile="classic",
            scopes=["openid", "notes:read", "notes:write"],
        )
        assert done.location == f"{path}?saved=1"
        client = await found(it, app.id)
        assert client.name == "Better Printer"
        assert client.redirect_uris == (CALLBACK, "http://localhost:3000/cb")
        assert client.openid.client_uri == "https://app.example/"
        assert client.scope.names == ("openid", "notes:read", "notes:write")
        assert client.default_scope.names == ("notes:read", "notes:write")
        assert client.profile_name.value == "classic"
        assert client.secrets == app.secrets
        assert "Saved" in text_of(await alice.get(done.location))
        events = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 100))
        changed = next(event for event in events if event.name == "client.changed")
        assert changed.done_by == f"user {ALICE.uid}"
        it.clock.forward(minutes(10))
        assert "Saved" not in text_of(await alice.get(done.location))

    run(tmp_path, story, database_url)


def test_settings_outside_the_form_are_kept(tmp_path: Path) -> None:
    app = replace(
        PRINTER,
        grant_types=WEB.grant_types | {"implicit"},
        required_scope=Scope.of("read"),
        rotates_refresh_token=True,
    )

    async def story(it: Harness) -> None:
        await it.change(app)
        await join(it, "web1", ALICE, TeamRole.MEMBER)
        alice = await developer(it)
        page = await alice.get("/developer/apps/web1/settings")
        assert "Implicit grant: tokens are passed" in text_of(page)
        assert "Delete app" not in text_of(page)
        done = await alice.submit(page, "do", description="Prints better")
        assert done.status == 303, done.body
        client = await found(it, "web1")
        assert changed_fields(app, client) == ("description",)

    run(tmp_path, story)


def test_stale_settings_form_is_not_saved_and_shows_changes_of_others(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/settings"
        mine, theirs = await alice.get(path), await bob.get(path)
        assert (await bob.submit(theirs, "do", name="Bob's")).status == 303
        page = await alice.submit(mine, "do", description="Mine")
        assert page.status == 400
        text = text_of(page)
        assert "It was changed while you edited it" in text
        assert "Changed by others: Name Name" in text
        assert 'value="Mine"' in page.body
        assert (await found(it, app.id)).name == "Bob's"
        done = await alice.submit(page, "do")
        assert done.status == 303
        client = await found(it, app.id)
        assert (client.name, client.description) == ("Printer", "Mine")
        odd = await alice.submit(mine, "do", etag="x")
        assert odd.status == 400

    run(tmp_path, story, database_url)


def test_invalid_fields_are_reported_and_nothing_is_saved(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        page = await alice.get(f"/developer/apps/{app.id}/settings")
        for field, value, message in (
            ("name", "Valetkey", "for the service itself"),
            ("redirect_uris", "https://app.example/*", "is not a wildcard"),
            ("logo_uri", "javascript:alert(1)", "beginning with https://"),
            ("profile", "fapi9", "Choose one of these values"),
        ):
            answer = await alice.submit(page, "do", **{field: value})
            assert answer.status == 400
            assert message in text_of(answer)
        assert changed_fields(app, await found(it, app.id)) == ()

    run(tmp_path, story)


def test_legacy_grant_can_be_removed_but_not_enabled(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        legacy = {"implicit", "password"}
        await it.change(replace(PRINTER, grant_types=WEB.grant_types | legacy))
        await join(it, "web1", ALICE)
        alice = await developer(it)
        path = "/developer/apps/web1/settings"
        for name in ("implicit", "password"):
            page = await alice.get(path)
            chosen = page.form("do")[1]["grant_types"]
            assert name in chosen
            kept = [grant_type for grant_type in chosen if grant_type != name]
            assert (await alice.submit(page, "do", grant_types=kept)).status == 303
            assert name not in (await found(it, "web1")).grant_types
            assert f'value="{name}"' not in (await alice.get(path)).body
            tried = await alice.submit(await alice.get(path), "do", grant_types=chosen)
            assert tried.status == 303
            assert name not in (await found(it, "web1")).grant_types
        assert (await found(it, "web1")).grant_types == WEB.grant_types

    run(tmp_path, story)


def test_modern_profile_requires_removal_of_legacy_grants(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.change(replace(PRINTER, grant_types=WEB.grant_types | {"implicit"}))
        await join(it, "web1", ALICE)
        alice = await developer(it)
        page = await alice.get("/developer/apps/web1/settings")
        answer = await alice.submit(page, "do", profile="modern")
        assert "Deselect the implicit grant first" in text_of(answer)

    run(tmp_path, story)


def test_closed_security_section_shows_the_profile_of_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        modern = replace(PRINTER, profile_name=ProfileName.MODERN, requires_pkce=True)
        await it.change(modern)
        await join(it, "web1", ALICE)
        alice = await developer(it)
        for app, state in (
            (modern, "Security 2 grant types · Modern · PKCE is required"),
            (replace(modern, requires_pkce=False), "Security 2 grant types · Modern Grant types"),
            (replace(modern, profile_name=ProfileName.CLASSIC), "· Classic · PKCE is required"),
        ):
            await it.change(app)
            assert state in text_of(await alice.get("/developer/apps/web1/settings"))

    run(tmp_path, story)


def test_client_id_with_reserved_characters_is_one_path_segment(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(PRINTER, id="a/b?c%d&e"))
        await join(it, "a/b?c%d&e", ALICE)
        alice = await developer(it)
        apps = await alice.get("/developer")
        assert "/developer/apps/a%2Fb%3Fc%25d%26e" in apps.body
        page = await alice.get("/developer/apps/a%2Fb%3Fc%25d%26e/settings")
        assert (await alice.submit(page, "do", name="Odd")).status == 303
        for odd in ("%", "%00", "%ff", "x" * 2_000, "%F0%9F%98%80", "a%2Fb"):
            assert (await alice.get(f"/developer/apps/{odd}/settings")).status == 404

    run(tmp_path, story)


def test_verified_app_name_is_reserved(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        page = await alice.get(f"/developer/apps/{app.id}/settings")
        assert (await alice.submit(page, "do", name="notes printer")).status == 303
        await it.store.write(lambda tx: tx.clients.verify("web1", it.clock.now))
        await join(it, "web1", ALICE)
        page = await alice.get(f"/developer/apps/{app.id}/settings")
        # The name that it had before stays, and no other may become it.
        assert (await alice.submit(page, "do", description="x")).status == 303
        other, _ = await registered(it, alice, name="Scanner")
        page = await alice.get(f"/developer/apps/{other.id}/settings")
        for name in ("Notes Printer", "NOTES-PRINTER", "notesprinter"):
            answer = await alice.submit(page, "do", name=name)
            assert answer.status == 400, name
            assert "Choose another name: a verified app already uses it" in text_of(answer)
        form = await alice.get("/developer/new", kind="server")
        values = {**WEB_APP, "name": "Notes  Printer"}
        answer = await alice.submit(form, "do", **values)
        assert "Choose another name: a verified app already uses it" in text_of(answer)
        own = await alice.get("/developer/apps/web1/settings")
        assert "This app is verified" in text_of(own)

    run(tmp_path, story)
