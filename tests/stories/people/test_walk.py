"""Common tasks of an operator take at most four steps from the console's first page.

A step is a page that is opened or a form that is sent. Each leaves a picture in
`build/screenshots/walk`: `make screenshots` takes them too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, FilePayload, Locator, Page, expect

from tests.stories.people.test_console import sign_in
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.sections.people import MailSettings, MailTransport
from valetkey.config.settings import Settings
from valetkey.testing.server import Servers

PICTURES = Path(__file__).parents[3] / "build/screenshots/walk"
MOST_STEPS = 4
_PASSWORD = "correct horse battery staple"


@dataclass
class Walk:
    """One task: `opens` and `sends` are its steps; all else is typing and reading."""

    task: str
    page: Page
    steps: int = 0

    def opens(self, link: str) -> None:
        """Follow the link with this text, on the page or in the navigation."""
        self.presses(self.page.get_by_role("link", name=link, exact=True).first)

    def sends(self, button: str, within: str = "main") -> None:
        """Press the button with this text."""
        section = self.page.locator(within)
        self.presses(section.get_by_role("button", name=button, exact=True))

    def types(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    def unfolds(self, summary: str) -> None:
        self.page.locator("main summary", has_text=summary).first.click()

    def sees(self, text: str) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def presses(self, control: Locator) -> None:
        """Press a link or button, and wait for the page that it leads to."""
        with self.page.expect_event("load"):
            control.click()
        self.steps += 1
        self.pictured()

    def pictured(self) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        name = self.task.replace(" ", "-")
        self.page.screenshot(path=PICTURES / f"{name}-{self.steps}.png", full_page=True)


def invite_a_colleague(walk: Walk) -> None:
    walk.opens("Users")
    walk.opens("Invite")
    walk.types("Username", "alan")
    walk.types("Email", "alan@example.com")
    walk.sends("Invite")
    walk.sees("An email with the link is on its way.")


def register_an_app(walk: Walk) -> None:
    walk.opens("Apps")
    walk.opens("Register an app")
    walk.presses(walk.page.locator("main a", has_text="Web application"))
    walk.types("Name", "Weather")
    walk.page.fill("#redirect-uris-1", "https://weather.example/callback")
    walk.sends("Register")
    walk.sees("Copy the secret now")


def rotate_a_secret(walk: Walk) -> None:
    walk.opens("Apps")
    walk.opens("Notes Printer")
    walk.opens("New secret")
    walk.sends("Issue a new secret")
    walk.sees("The secret is shown only once. Copy it now.")


def find_why_a_sign_in_failed(walk: Walk) -> None:
    walk.opens("Users")
    walk.opens("Grace")
    walk.sees("the password is wrong")


def give_a_group_an_app_on_the_page_of_the_app(walk: Walk) -> None:
    walk.opens("Apps")
    walk.opens("Notes Printer")
    walk.page.get_by_label("Give access to a group").select_option("Engineers")
    walk.sends("Add", "form:has(#give)")
    walk.sees("Engineers")


def give_a_group_an_app_on_the_page_of_the_group(walk: Walk) -> None:
    walk.opens("Groups")
    walk.opens("Writers")
    walk.page.get_by_label("Give access to an app").select_option("Notes Printer")
    walk.sends("Add", "form:has(#give)")
    walk.sees("Notes Printer")


def add_google_as_a_sign_in_provider(walk: Walk) -> None:
    walk.opens("Sign-in providers")
    walk.opens("Add provider")
    walk.opens("Google")
    walk.types("Client ID", "1234.apps.googleusercontent.com")
    walk.types("Client secret", "GOCSPX-secret")
    walk.sends("Add provider")
    walk.sees("Google")


def change_the_brand_with_a_logo(walk: Walk) -> None:
    walk.opens("Settings")
    walk.opens("Name, logo and color")
    file = BytesIO()
    Image.new("RGBA", (300, 60), "#0a7a3f").save(file, "PNG")
    picture = FilePayload(name="logo.png", mimeType="image/png", buffer=file.getvalue())
    walk.page.set_input_files("#file-light", picture)
    walk.sends("Upload", "form:has(#file-light)")
    walk.types("Name of the service", "Inkwell")
    walk.sends("Save changes")
    walk.sees("Saved")


def add_an_api_with_scopes(walk: Walk) -> None:
    walk.opens("APIs")
    walk.opens("New API")
    walk.types("Name", "Calendar")
    walk.types("Identifier", "https://calendar.example/")
    walk.unfolds("Scopes and roles")
    walk.page.locator("[name=scopes]").first.fill("calendar:read")
    walk.page.locator("[name=text-scopes]").first.fill("see your calendar")
    walk.sends("Create API")
    walk.sees("calendar:read")


def export_the_data_of_a_user(walk: Walk) -> None:
    walk.opens("Users")
    walk.opens("Grace")
    walk.unfolds("More actions")
    walk.opens("Export data")
    with walk.page.expect_download() as file:
        walk.page.locator("#do").click()
    walk.steps += 1
    assert b"grace@example.com" in Path(file.value.path()).read_bytes()


def secure_a_compromised_account(walk: Walk) -> None:
    walk.opens("Users")
    walk.opens("Grace")
    dangerous = walk.page.locator(".danger-zone a").all_inner_texts()
    assert dangerous == ["Disable account", "Secure account", "Delete account"]
    walk.opens("Secure account")
    walk.page.get_by_label("Send it by email").check()
    walk.sends("Secure account")
    walk.sees("secured")


def add_a_node(walk: Walk) -> None:
    walk.opens("Settings")
    walk.unfolds("Add a node")
    walk.pictured()
    walk.sees("needs PostgreSQL")
    walk.sees("valetkey.keyring")


def get_alerts_by_email(walk: Walk) -> None:
    walk.opens("Settings")
    walk.unfolds("Monitoring")
    walk.opens("Change Alerts by email")
    walk.page.get_by_label("On", exact=True).check()
    walk.sends("Save changes")
    walk.sees("Saved")


def add_a_second_owner(walk: Walk) -> None:
    finding = walk.page.locator("li", has_text="There is only one owner")
    walk.presses(finding.get_by_role("link", name="Add a second owner"))
    walk.page.locator("#give-field").fill("grace")
    walk.sends("Assign role")
    walk.page.get_by_label("Owner").check()
    walk.sends("Change role")
    walk.sees("Owner")


TASKS = (
    invite_a_colleague,
    register_an_app,
    rotate_a_secret,
    find_why_a_sign_in_failed,
    give_a_group_an_app_on_the_page_of_the_app,
    give_a_group_an_app_on_the_page_of_the_group,
    add_google_as_a_sign_in_provider,
    change_the_brand_with_a_logo,
    add_an_api_with_scopes,
    export_the_data_of_a_user,
    secure_a_compromised_account,
    add_a_node,
    get_alerts_by_email,
    add_a_second_owner,
)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """A server with an owner, a user, an app and two groups."""
    mail = MailSettings(transport=MailTransport.MAILBOX, from_address="no-reply@example.com")
    with Servers(tmp_path, settings=Settings(mail=mail), with_resource=False) as servers:
        olive = servers.register_user("olive", _PASSWORD)
        servers.register_user("grace", _PASSWORD)
        metadata = ClientMetadata(
            name="Notes Printer",
            redirect_uris=("https://printer.example/callback",),
            grant_types=("authorization_code",),
        )
        servers.register_client(metadata, "printer", "s" * 40)
        now = servers.clock.now()
        servers.write(lambda tx: tx.user_directory.set_role(olive.uid, Role.OWNER, now))
        yield servers


def _failed_sign_in(servers: Servers, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{servers.auth_url}/oauth/sign-in")
    sign_in(page, "grace", "not her password")
    expect(page.locator("main")).to_contain_text("Incorrect")
    context.close()


def _groups(servers: Servers, page: Page) -> None:
    for name in ("Engineers", "Writers"):
        page.goto(f"{servers.auth_url}/admin/groups/new")
        page.fill("#name", name)
        page.click("#do")


def test_console_tasks_take_at_most_four_steps(servers: Servers, browser: Browser) -> None:
    _failed_sign_in(servers, browser)
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", locale="en"
    )
    page = context.new_page()
    page.goto(f"{servers.auth_url}/admin")
    sign_in(page, "olive", _PASSWORD)
    page.wait_for_url("**/admin")
    _groups(servers, page)
    steps: dict[str, int] = {}
    for task in TASKS:
        page.goto(f"{servers.auth_url}/admin")
        walk = Walk(task.__name__.replace("_", " "), page)
        task(walk)
        steps[walk.task] = walk.steps
    context.close()
    assert {task: count for task, count in steps.items() if count > MOST_STEPS} == {}
