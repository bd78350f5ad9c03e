"""The page in a real browser: nothing overflows, nothing is blocked, on a phone and on a desk."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.resource.objects.books import BOOK, TASK, write_objects
from valetkey.config.sections.resource import ResourceSettings
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1_280])
def test_the_page_fits(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    write_objects(tmp_path, books_py=BOOK, tasks_json=TASK)
    settings = replace(Settings(), resource=ResourceSettings(objects="objects"))
    with Servers(tmp_path, settings=settings) as servers:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{servers.api_url}/v2/")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(18, 21, 26)") is (scheme == "dark")
        context.close()
    assert said == []
    assert asked == [f"{servers.api_url}/v2/"]
