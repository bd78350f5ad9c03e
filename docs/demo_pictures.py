"""Screenshots of the running demo, which README shows: `make screenshots`."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from docs.screenshots import CHROMIUM, FLAT, SCHEMES, SHOWN_HERE, WIDTHS, shot
from valetkey.cli.demo.site import PASSWORD, PRINTER, USERNAME

FOLDER = SHOWN_HERE / "demo"


@contextmanager
def demo() -> Generator[str]:
    """Run the demo; yield what it printed."""
    program = Path(sys.executable).parent / "valetkey"
    with subprocess.Popen([program, "demo"], stdout=subprocess.PIPE, text=True) as process:
        try:
            printed = ""
            for line in process.stdout or ():
                printed += line
                if "Ctrl-C" in line:
                    break
            yield printed
        finally:
            process.terminate()


def take(tab: Page, printed: str) -> None:
    """Connect the app as Ada, and take the consent page, her apps and a failed request."""
    app, developers = (
        re.findall(rf"{name} +(http\S+)", printed)[0] for name in ("open", "developers")
    )
    tab.goto(app)
    tab.click("text=Connect your notes")
    tab.fill("input[name=username]", USERNAME)
    tab.fill("input[name=password]", PASSWORD)
    tab.click("#sign-in")
    picture(tab, "consent", "phone")
    tab.click("#allow")
    tab.set_viewport_size({"width": WIDTHS["desktop"], "height": 800})
    tab.goto(developers.removesuffix("/developer"))
    tab.click("nav >> text=Connected apps")
    picture(tab, "apps", "desktop")
    tab.goto(f"{developers}/apps/{PRINTER}/requests")
    tab.click("a[href*='/failures/VK-'] >> nth=-1")
    picture(tab, "failure", "desktop")


def picture(tab: Page, name: str, width: str) -> None:
    """Write the page in both color schemes."""
    tab.set_viewport_size({"width": WIDTHS[width], "height": 800})
    tab.add_style_tag(content=FLAT)
    for scheme in SCHEMES:
        tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        content = shot(tab, WIDTHS[width])
        (FOLDER / f"{name}-{width}-{scheme}.webp").write_bytes(content)


def main() -> None:
    """Take the screenshots of a new demo."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with demo() as printed, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(reduced_motion="reduce", timezone_id="UTC", bypass_csp=True)
        take(context.new_page(), printed)
        browser.close()


if __name__ == "__main__":
    main()
