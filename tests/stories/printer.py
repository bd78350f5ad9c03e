"""The app "printer" of the stories: how Ada allows it, and what it does with its tokens."""

from urllib.parse import urlencode

import requests

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

PASSWORD = "correct horse battery staple"
SECRET = "a secret of the printer, long enough for it"
_CALLBACK = "https://app.example/cb"


def register(servers: Servers, *scopes: str) -> None:
    """Register the app with these scopes."""
    metadata = ClientMetadata("Printer", redirect_uris=(_CALLBACK,), scopes=scopes)
    servers.register_client(metadata, "printer", SECRET)


def code(servers: Servers, ada: UserAgent, scope: str = "notes:read") -> str:
    """Let Ada allow the app; she signs in and consents where she is asked to."""
    parameters = {
        "response_type": "code",
        "client_id": "printer",
        "redirect_uri": _CALLBACK,
        "scope": scope,
    }
    page = ada.open(f"{servers.auth_url}/oauth/authorize?{urlencode(parameters)}")
    if any(button.id == "sign-in" for button in page.buttons):
        page = ada.sign_in(page, "ada", PASSWORD)
    if not page.location:
        page = ada.allow(page)
    return page.redirect_parameters["code"]


def code_form(code: str) -> dict[str, str]:
    """Return the form that redeems a code."""
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": _CALLBACK}


def redeem(servers: Servers, code: str) -> requests.Response:
    """Redeem a code for tokens."""
    return ask(servers, code_form(code))


def ask(servers: Servers, form: dict[str, str]) -> requests.Response:
    """Send a form to the token endpoint."""
    url = f"{servers.auth_url}/oauth/token"
    return requests.post(url, form, auth=("printer", SECRET), timeout=60)


def reads(servers: Servers, token: str) -> int:
    """Read the notes with an access token; return the status."""
    headers = {"authorization": f"Bearer {token}"}
    return requests.get(f"{servers.api_url}/v2/notes", headers=headers, timeout=60).status_code
