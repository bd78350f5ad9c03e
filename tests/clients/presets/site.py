"""Apps registered with a preset and run with the configuration that came of it, nothing more."""

import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

from tests.support.wait import CEILING, wait_until
from valetkey.authorization.actions.presets import PRESETS, AppKind, new_app
from valetkey.authorization.model.client import GrantTypeName, OpenIdRegistration, is_by_secret
from valetkey.authorization.model.user import Group, StandardClaims
from valetkey.authorization.portal.rules.quickstart import Quickstarts
from valetkey.config.settings import RegistrationMode, RegistrationSettings, Settings, TokenSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.testing.server import Servers

_ALGORITHMS = (Algorithm.ES256, Algorithm.RS256)
PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Registered:
    """A client with what its developer saw after registration: the configuration, by file."""

    issuer: str
    client_id: str
    secret: str
    files: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Paste the configuration into the files it is for."""
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


def register(servers: Servers, name: str, redirect_uri: str = "") -> Registered:
    """Register an app with a preset, as the portal and `valetkey client create` do."""
    preset = PRESETS[name]
    metadata = preset.metadata(preset.label)
    if redirect_uri:
        metadata = replace(metadata, redirect_uris=(redirect_uri,))
    metadata = preset.completed(metadata)
    by_secret = is_by_secret(metadata.proof)
    secret = fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random).reveal() if by_secret else ""
    client_id = fresh_id("client", SYSTEM.random)
    client = servers.register_client(metadata, client_id, secret or None)
    files = preset.configuration(client, client_id, servers.auth_url, secret, SYSTEM.random)
    return Registered(servers.auth_url, client_id, secret, {file.name: file.text for file in files})


def register_for_quickstart(
    servers: Servers, name: str, redirect_uri: str, auth_method: str = ""
) -> Registered:
    """Register an app as the form of the portal starts, and fill in its quickstart."""
    grants = [GrantTypeName.AUTHORIZATION_CODE.value, GrantTypeName.REFRESH_TOKEN.value]
    metadata = replace(
        new_app(AppKind.SERVER, "modern", grants),
        name="My app",
        redirect_uris=(redirect_uri,),
        scopes=("openid", "profile", "email"),
        openid=OpenIdRegistration(token_endpoint_auth_method=auth_method),
    )
    secret = fresh_secret(Prefix.CLIENT_SECRET, SYSTEM.random).reveal()
    client_id = fresh_id("app", SYSTEM.random)
    client = servers.register_client(metadata, client_id, secret)
    offered = Quickstarts(servers.auth_url, "", _ALGORITHMS, SYSTEM.random)
    assert name in {choice.name for choice in offered.choices_of(client)}
    shown = offered.quickstart(client, name)
    assert not shown.missing_redirect_uri
    assert not shown.missing_openid
    files = {file.name: file.text.lstrip("\n") for file in shown.files}
    return Registered(servers.auth_url, client_id, secret, files)


@contextmanager
def provider(
    folder: Path, registration: RegistrationMode = RegistrationMode.OFF
) -> Generator[Servers]:
    """A server with Ada, whose email address is verified and who is in the group staff."""
    settings = Settings(
        registration=RegistrationSettings(mode=registration),
        tokens=TokenSettings(signing_algorithms=_ALGORITHMS),
    )
    with Servers(folder, settings=settings, with_resource=False) as servers:
        ada = servers.register_user("ada", PASSWORD, name="Ada Lovelace")
        now = servers.clock.now()
        user = replace(
            ada,
            claims=StandardClaims(given_name="Ada", family_name="Lovelace"),
            email_verified_at=now,
        )
        assert servers.write(lambda tx: tx.users.change(user))
        staff = Group("grp_staff", "staff", "", "", now)
        assert servers.write(lambda tx: tx.groups.create(staff, ""))
        assert servers.write(lambda tx: tx.groups.add(staff, ada.uid, now))
        yield servers


@contextmanager
def running(
    command: Sequence[str | Path], folder: Path, url: str, environment: Mapping[str, str]
) -> Generator[None]:
    """A program that answers at `url` while this lasts."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), "the program never began")
        assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(CEILING)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=CEILING).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def sign_in(tab: Page, servers: Servers) -> None:
    """Ada signs in on the page of this server and allows what the app asks for."""
    assert tab.url.startswith(servers.auth_url), tab.content()
    tab.fill("#username", "ada")
    tab.fill("#password", PASSWORD)
    tab.click("#sign-in")
    if tab.locator("#allow").count():
        tab.click("#allow")
