"""The pictures of the first page, taken from the running servers: `make pictures`."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from playwright.sync_api import Page, ViewportSize, sync_playwright

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.server import Servers

_FOLDER = Path(__file__).parent / "pictures"
_CHROMIUM = "/usr/bin/chromium"
_PASSWORD = "correct horse battery staple"
_CALLBACK = "https://app.example/cb"
_SCOPE = "notes:read notes:write account:read"
_SIZE = ViewportSize(width=480, height=740)


@contextmanager
def _servers() -> Generator[Servers]:
    with TemporaryDirectory() as folder, Servers(Path(folder), with_resource=False) as servers:
        servers.register_user("ada", _PASSWORD, name="Ada Lovelace")
        printer = ClientMetadata(
            "Notes Printer", redirect_uris=(_CALLBACK,), scopes=tuple(_SCOPE.split())
        )
        servers.register_client(printer, "printer", "a secret of the printer, long enough")
        yield servers


def _consent(page: Page, auth_url: str) -> None:
    asked = {
        "response_type": "code",
        "client_id": "printer",
        "redirect_uri": _CALLBACK,
        "scope": _SCOPE,
    }
    page.goto(f"{auth_url}/oauth/authorize?{urlencode(asked)}")
    page.fill("#username", "ada")
    page.fill("#password", _PASSWORD)
    page.click("#sign-in")


def main() -> None:
    """Take them again."""
    _FOLDER.mkdir(exist_ok=True)
    with _servers() as servers, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, viewport=_SIZE)
            page = context.new_page()
            _consent(page, servers.auth_url)
            page.screenshot(path=_FOLDER / f"consent-{scheme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
