"""The brand changes while the server runs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from tests.authorization.endpoints.admin_api.programs import caller
from tests.support.harness import Harness, run
from tests.support.wait import until
from valetkey.authorization.actions.admin.permissions import (
    ActorPermissions,
    CommandLine,
    permissions_of,
)
from valetkey.authorization.actions.admin.server import brand_of, change_brand, current_brand
from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.event.event import CLI, USUAL_ACTOR, DoneBy
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.sections.people import BrandField, BrandSettings
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM

NOW = Instant(1_800_000_000)
SETTINGS = BrandSettings(name="Acme", terms_url="https://acme.example/terms")
Changes = Mapping[BrandField, str | None]


@dataclass(frozen=True)
class WithRole:
    role: Role
    done_by: DoneBy = CLI

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        return permissions_of(self.role)


async def _opened(url: str) -> Store:
    engine = connect(url, directory=Path())
    await migrate(engine, SCHEMA)
    return Store(engine, SYSTEM.random, CLI)


async def _change(
    store: Store, changes: Changes
) -> Mapping[BrandField, str] | tuple[MetadataError, ...]:
    return await store.write(
        lambda tx: change_brand(tx, CommandLine(), SETTINGS, changes, NOW), done_by=USUAL_ACTOR
    )


async def _events(store: Store) -> list[tuple[object, ...]]:
    rows = await store.read(lambda tx: tx.db.rows("SELECT name, data FROM events"))
    return sorted(rows)


def test_brand_change_overrides_the_settings_until_it_is_reset(database_url: str) -> None:
    async def story() -> None:
        store = await _opened(database_url)
        changed = await _change(store, {BrandField.NAME: " Nova ", BrandField.TERMS_URL: ""})
        assert isinstance(changed, Mapping)
        assert (changed[BrandField.NAME], changed[BrandField.TERMS_URL]) == ("Nova", "")
        assert await store.read(lambda tx: current_brand(tx, SETTINGS)) == changed
        assert len(await _events(store)) == 2
        await _change(store, {BrandField.NAME: "Acme", BrandField.TERMS_URL: None})
        assert await store.read(lambda tx: tx.brand.all()) == {}
        assert await store.read(lambda tx: current_brand(tx, SETTINGS)) == brand_of(SETTINGS)
        assert len(await _events(store)) == 4
        await _change(store, {BrandField.NAME: None})
        assert len(await _events(store)) == 4
        await store.engine.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (BrandField.NAME, ""),
        (BrandField.NAME, "  "),
        (BrandField.NAME, "x" * 61),
        (BrandField.NAME, "A\u202eB"),
        (BrandField.NAME, "A\x00"),
        (BrandField.ACCENT, "red"),
        (BrandField.ACCENT, "#12345;}"),
        (BrandField.LOGO_URL, "javascript:alert(1)"),
        (BrandField.LOGO_URL, "https://acme.example/a.png"),
        (BrandField.LOGO_URL, "//acme.example/a.png"),
        (BrandField.LOGO_URL, "/\\acme.example/a.png"),
        (BrandField.TERMS_URL, 'https://acme.example/"onclick='),
        (BrandField.PRIVACY_URL, "https://acme.example/" + "a" * 2_000),
    ],
)
def test_xs_05_invalid_brand_values_are_refused_and_change_nothing(
    sqlite_url: str, field: BrandField, value: str
) -> None:
    async def story() -> None:
        store = await _opened(sqlite_url)
        fine = BrandField.ACCENT if field is not BrandField.ACCENT else BrandField.NAME
        faults = await _change(store, {fine: "#000000", field: value})
        if value.endswith("onclick="):
            # It may be kept, and no page links to it.
            assert isinstance(faults, Mapping)
        else:
            assert isinstance(faults, tuple)
            assert [fault.field for fault in faults] == [field.value]
            assert await store.read(lambda tx: tx.brand.all()) == {}
        await store.engine.close()

    asyncio.run(story())


@pytest.mark.parametrize("role", [Role.SUPPORT, Role.AUDITOR])
def test_ad_brand_change_requires_the_permission_to_change_settings(
    sqlite_url: str, role: Role
) -> None:
    async def story() -> None:
        store = await _opened(sqlite_url)
        with pytest.raises(Refused):
            await store.write(
                lambda tx: change_brand(
                    tx, WithRole(role), SETTINGS, {BrandField.NAME: "Mine"}, NOW
                ),
                done_by=USUAL_ACTOR,
            )
        assert await store.read(lambda tx: tx.brand.all()) == {}
        await store.engine.close()

    asyncio.run(story())


def test_brand_change_reaches_other_processes_and_old_assets_stay_available(
    database_url: str,
) -> None:
    async def story() -> None:
        ours, theirs = await _opened(database_url), await _opened(database_url)
        book = CurrentBrand(Brand(name="Acme"))
        before = book.current
        style = next(iter(book.asset(p) for p in book._files if "style" in p))
        follows = asyncio.create_task(book.follow_changes(ours))
        await until(lambda: book._changed != -1, "it does not look")
        await _change(theirs, {BrandField.ACCENT: "#aa0000"})
        await until(lambda: book.current != before)
        assert book.current.accent == "#aa0000"
        assert style is not None
        assert book.asset(style.path) == style, "pages that are open still ask for it"
        follows.cancel()
        for store in (ours, theirs):
            await store.engine.close()

    asyncio.run(story())


def test_parallel_brand_changes_are_all_stored_and_recorded(database_url: str) -> None:
    async def story() -> None:
        store = await _opened(database_url)
        fields = (BrandField.NAME, BrandField.TERMS_URL, BrandField.PRIVACY_URL)
        await asyncio.gather(
            *(_change(store, {fields[n % 3]: f"https://acme.example/{n}"}) for n in range(30))
        )
        assert set(await store.read(lambda tx: tx.brand.all())) == set(fields)
        rows = await store.read(
            lambda tx: tx.db.rows("SELECT data FROM events WHERE name = 'brand.changed'")
        )
        assert len(rows) == 30
        await store.engine.close()

    asyncio.run(story())


def test_a_logo_is_uploaded_by_the_admin_api(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        owner = await caller(it)
        file = BytesIO()
        Image.new("RGBA", (900, 200), "red").save(file, "PNG")
        png = {"content-type": "image/png"}
        answer = await owner.call("PUT", "/brand/logos/light", raw=file.getvalue(), headers=png)
        assert answer.status == 200, answer.body
        name = str(answer.json["logo_url"]).removeprefix("/logos/")
        stored = await it.read(lambda tx: tx.brand.logo(name))
        assert stored is not None
        with Image.open(BytesIO(stored)) as copy:
            assert (copy.format, copy.height) == ("WEBP", 96)
        for path, content, kind, status in (
            ("/brand/logos/sepia", file.getvalue(), "image/png", 404),
            ("/brand/logos/dark", b"<svg/>", "image/png", 400),
            ("/brand/logos/dark", b"\x89PNG", "image/png", 400),
            ("/brand/logos/dark", b"<svg/>", "image/svg+xml", 415),
            ("/brand/logos/dark", b"x" * (2 * 1024 * 1024 + 1), "image/png", 413),
        ):
            wrong = await owner.call("PUT", path, raw=content, headers={"content-type": kind})
            assert wrong.status == status, (path, wrong.body)
        removed = await owner.call(
            "PATCH", "/brand", {"logo_url": None}, headers={"if-match": answer.headers["etag"]}
        )
        assert removed.json["logo_url"] == ""
        assert await it.read(lambda tx: tx.brand.logo(name)) is None

    run(tmp_path, story, database=database_url)
