"""An app of openid-client that registers itself and signs Ada in, as Python drives it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tests.clients.node.library import Script, Told
from tests.openid.provider import Provider
from tests.openid.relying_party import PASSWORD, REDIRECT_URI
from valetkey.testing.browser import Page, UserAgent

SCOPE = "openid profile email offline_access"


@dataclass
class App:
    """One registered app; what it says of itself goes along with every step."""

    script: Script
    op: Provider
    client: Mapping[str, object] = field(default_factory=dict[str, object])
    more: Mapping[str, object] = field(default_factory=dict[str, object])
    """What else the script must know: which of its keys signs or decrypts."""

    @staticmethod
    def register(
        script: Script, op: Provider, more: Mapping[str, object] | None = None, **metadata: object
    ) -> "App":
        """Registered by the library itself."""
        app = App(script, op, more=more or {})
        registration = {
            "client_name": "Library",
            "redirect_uris": [REDIRECT_URI],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "client_secret_basic",
            **metadata,
        }
        client = app.step("register", metadata=registration).said
        assert "problem" not in client, client
        return App(script, op, client, more or {})

    def step(self, name: str, **values: object) -> Told:
        """Run one step."""
        defaults = {"issuer": self.op.servers.auth_url, "callback": REDIRECT_URI, "scope": SCOPE}
        client = {"client": dict(self.client), **self.more}
        return Told(self.script.ask({"step": name, **defaults, **client, **values}))

    def arrive(self, person: UserAgent, **more: str) -> dict[str, object]:
        """Begin, and let Ada sign in and allow where she is asked: what `finish` wants to know."""
        begun = self.step("begin", more=more)
        page = person.open(str(begun["url"]))
        if any(button.id == "sign-in" for button in page.buttons):
            page = person.sign_in(page, "ada", PASSWORD)
        if any(button.id == "allow" for button in page.buttons):
            page = person.allow(page)
        return {**begun.said, **_brought(page)}

    def sign_in(self, person: UserAgent | None = None, **more: str) -> Told:
        """A token response, after a code."""
        return self.step("finish", **self.arrive(person or self.op.person(), **more))


def _brought(page: Page) -> dict[str, object]:
    if page.location:
        return {"arrived": page.location}
    (form,) = [form for form in page.forms if form.action.startswith(REDIRECT_URI)]
    return {"posted": urlencode(form.fields)}
