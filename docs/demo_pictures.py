"""Screenshots of the running demo, which README and guides show: `make screenshots`."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, sync_playwright

from docs.screenshots import CHROMIUM, FLAT, SCHEMES, SHOWN_HERE, WIDTHS, shot, shown_in_documents
from valetkey.cli.demo.site import (
    CALENDAR,
    GROUP,
    OWNER,
    OWNER_PASSWORD,
    PASSWORD,
    PRINTER,
    USERNAME,
)

FOLDER = SHOWN_HERE / "demo"
SHOWN = shown_in_documents()
PROGRAM = Path(sys.executable).parent / "valetkey"

COMMANDS = (
    "user create joan --email joan@inkwell.example --role administrator --generate-password",
    "user create edsger --email edsger@inkwell.example --role support --generate-password",
    "user create barbara --email barbara@inkwell.example --generate-password",
    f"group add {GROUP} barbara",
    f"admin-token create --for {OWNER} --name Dashboard --permission read",
    f"admin-token create --for {OWNER} --name Onboarding --permission people",
    "settings set registration.mode token",
    "registration invite --uses 20 --days 30 --note Library",
    "registration invite --days 7 --note Printers",
    "key rotate --yes",
)
"""What the operator of the demo did before the pictures of the console."""

USERS = """username,email,name
alan,alan@inkwell.example,Alan Turing
katherine,katherine@inkwell.example,Katherine Johnson
annie,annie@inkwell.example,Annie Easley
grace,grace@inkwell.example,Grace Hopper
hedy,hedy.inkwell.example,Hedy Lamarr
"""
"""A file to import, with one user who exists and one address that is none."""


@dataclass(frozen=True, slots=True)
class Demo:
    """The addresses of a running demo, and its configuration file."""

    app: str
    console: str
    developers: str
    configuration: str


@contextmanager
def demo() -> Generator[Demo]:
    """Run the demo; yield what it printed."""
    with subprocess.Popen([PROGRAM, "demo"], stdout=subprocess.PIPE, text=True) as process:
        try:
            printed = ""
            for line in process.stdout or ():
                printed += line
                if "Ctrl-C" in line:
                    break
            app, console, developers = (
                re.findall(rf"{name} +(http\S+)", printed)[0]
                for name in ("open", "owner", "developers")
            )
            configuration = re.findall(r"--config (\S+)", printed)[0]
            yield Demo(app, console, developers, configuration)
        finally:
            process.terminate()


def take_app(tab: Page, demo: Demo) -> None:
    """Connect the app as Ada, and take the consent page, her apps and a failed request."""
    tab.goto(demo.app)
    tab.click("text=Connect your notes")
    sign_in(tab, USERNAME, PASSWORD)
    picture(tab, "consent", "phone")
    tab.click("#allow")
    tab.set_viewport_size({"width": WIDTHS["desktop"], "height": 800})
    tab.goto(demo.developers.removesuffix("/developer"))
    tab.click("nav >> text=Connected apps")
    picture(tab, "apps", "desktop")
    tab.goto(f"{demo.developers}/apps/{PRINTER}/requests")
    tab.click("a[href*='/failures/VK-'] >> nth=-1")
    picture(tab, "failure", "desktop")


def take_console(tab: Page, demo: Demo) -> None:
    """Administer the demo as Grace, and take the pages that guides show."""
    for command in COMMANDS:
        line = [str(PROGRAM), *command.split(), "--config", demo.configuration]
        subprocess.run(line, check=True, capture_output=True)
    tab.goto(demo.console)
    sign_in(tab, OWNER, OWNER_PASSWORD)
    tab.wait_for_url(demo.console)
    _import(tab, demo)
    for name, path in (
        ("overview", ""),
        ("events", "/events"),
        ("tokens", "/tokens"),
        ("roles", "/roles"),
        ("keys", "/keys"),
        ("registration", "/registration"),
    ):
        tab.goto(f"{demo.console}{path}")
        picture(tab, name, "desktop")
    for name, heading, link in (("api", "apis", CALENDAR), ("group", "groups", GROUP)):
        tab.goto(f"{demo.console}/{heading}")
        tab.get_by_role("link", name=link, exact=True).click()
        picture(tab, name, "desktop")
    _brand(tab, demo)


def _import(tab: Page, demo: Demo) -> None:
    """Upload a file of users, and take the page that says what was checked."""
    tab.goto(f"{demo.console}/users/import")
    file = FilePayload(name="library.csv", mimeType="text/csv", buffer=USERS.encode())
    tab.set_input_files("input[type=file]", file)
    tab.click("#do")
    tab.wait_for_selector("text=Waiting for your decision")
    picture(tab, "import", "desktop")


def _brand(tab: Page, demo: Demo) -> None:
    """Upload a logo, and take the form with its preview."""
    file = BytesIO()
    Image.new("RGBA", (300, 60), "#1f4e8c").save(file, "PNG")
    logo = FilePayload(name="logo.png", mimeType="image/png", buffer=file.getvalue())
    tab.goto(f"{demo.console}/settings/brand")
    tab.set_input_files("#file-light", logo)
    picture(tab, "brand", "desktop")


def sign_in(tab: Page, username: str, password: str) -> None:
    """Fill the form and send it."""
    tab.fill("input[name=username]", username)
    tab.fill("input[name=password]", password)
    tab.click("#sign-in")


def picture(tab: Page, name: str, width: str) -> None:
    """Write the page in the color schemes that documents show."""
    tab.set_viewport_size({"width": WIDTHS[width], "height": 800})
    tab.add_style_tag(content=FLAT)
    for scheme in SCHEMES:
        file = FOLDER / f"{name}-{width}-{scheme}.webp"
        if f"demo/{file.name}" in SHOWN:
            tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            file.write_bytes(shot(tab, WIDTHS[width]))


def _new_tab(browser: Browser) -> Page:
    context = browser.new_context(reduced_motion="reduce", timezone_id="UTC", bypass_csp=True)
    return context.new_page()


def main() -> None:
    """Take the screenshots of a new demo."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with demo() as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take_app(_new_tab(browser), running)
        take_console(_new_tab(browser), running)
        browser.close()


if __name__ == "__main__":
    main()
