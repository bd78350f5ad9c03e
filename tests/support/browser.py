"""A browser for the tests that look at pages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")

# In CI nothing is left out: there, tests that need a missing browser fail.
_LEFT_OUT = not CHROMIUM.exists() and not os.environ.get("CI")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _LEFT_OUT:
        return
    left_out = [i for i in items if isinstance(i, pytest.Function) and "browser" in i.fixturenames]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _LEFT_OUT:
        terminalreporter.write_line(
            "LEFT OUT: Chromium is not installed, so nobody LOOKED at the pages."
            " On Debian: apt-get install chromium",
            red=True,
            bold=True,
        )


# Not for the session: while it is open, this thread has a running event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()
