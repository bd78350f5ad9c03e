"""Stylesheet, icon and scripts, under addresses that name their content."""

from pathlib import Path

from tests.authorization.pages.reading import Reading
from tests.support.harness import Harness
from tests.support.visitors import run
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.server import change_brand
from valetkey.authorization.model.event.event import by_cli
from valetkey.config.sections.people import BrandField, BrandSettings


async def _style(it: Harness) -> str:
    page = Reading((await it.browser().get("/")).body.encode())
    return next(e for e in page.all("link") if e.attributes["rel"] == "stylesheet").attributes[
        "href"
    ]


async def _paint(it: Harness, accent: str) -> None:
    now, actor, settings = it.clock.now, CommandLine(), BrandSettings()
    changes = {BrandField.ACCENT: accent, BrandField.NAME: "Nova"}
    await it.server.store.write(
        lambda tx: change_brand(tx, actor, settings, changes, now), done_by=by_cli("test")
    )


def test_a_new_colour_has_a_new_address_and_the_old_one_still_works(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser, before = it.browser(), await _style(it)
        await _paint(it, "#aa0000")
        await it.server.brands.refresh(it.server.store)
        after = await _style(it)
        assert before != after
        assert "Nova" in (await browser.get("/")).body
        for path, colour in ((before, "#2456d6"), (after, "#aa0000")):
            answer = await browser.get(path)
            assert answer.status == 200
            assert f"--fill:{colour}" in answer.body
            assert "immutable" in answer.header("cache-control")

    run(tmp_path, story)


def test_stylesheet_of_a_newer_brand_is_served(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        style = await _style(it)
        await _paint(it, "#aa0000")
        # The page of the other process names an address that this one has not heard of.
        elsewhere = await it.browser().get(style.replace(style[-20:-4], "0" * 16))
        assert "--fill:#aa0000" in elsewhere.body
        assert elsewhere.header("cache-control") == "no-store"
        assert "immutable" in (await it.browser().get(await _style(it))).header("cache-control")

    run(tmp_path, story)


def test_unknown_asset_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for name in ("style.css", "style", "x-0.css", "..%2fsecret", "-", "%00", "a" * 4_000):
            assert (await it.browser().get(f"/assets/{name}")).status == 404

    run(tmp_path, story)
