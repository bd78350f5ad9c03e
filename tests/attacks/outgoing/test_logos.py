"""Logos of apps: pages show a copy of ours and never an address that a client supplied."""

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from threading import Event
from typing import TypeVar
from urllib.parse import urlencode

import pytest
import requests
from PIL import Image

from tests.fetch.canary import certificate
from tests.support.pages import Page, Pages, pages
from tests.support.wait import CEILING
from valetkey.authorization.actions.registrations import adopt
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import RegistrationMode, RegistrationSettings, Settings
from valetkey.kernel.replace import replace
from valetkey.testing.browser import Page as Shown
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

T = TypeVar("T")

CALLBACK = "https://app.example/cb"
PASSWORD = "correct horse battery staple"
PAPERS = {"policy_uri": "https://evil.test/policy", "tos_uri": "https://evil.test/terms"}
RED, BLUE = (220, 30, 30), (30, 30, 220)


def png(colour: tuple[int, int, int]) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (64, 64), colour).save(written, "PNG")
    return written.getvalue()


def soon(happens: Callable[[], bool]) -> None:
    until = time.monotonic() + CEILING
    while not happens():
        assert time.monotonic() < until, "nothing happened for a minute"
        time.sleep(0.05)


@dataclass
class World:
    """An authorization server, and the image server of its apps."""

    servers: Servers
    images: Pages

    def app(self, client_id: str, logo: str) -> None:
        metadata = ClientMetadata(
            name=client_id, redirect_uris=(CALLBACK,), scopes=("read",), logo_uri=logo
        )
        self.servers.register_client(metadata, client_id, f"secret of {client_id}" + "x" * 20)

    def self_registered(self, name: str, logo: str) -> str:
        metadata = {"redirect_uris": [CALLBACK], "client_name": name, "logo_uri": logo, **PAPERS}
        answer = requests.post(
            f"{self.servers.auth_url}/oauth/register", json=metadata, timeout=CEILING
        )
        assert answer.status_code == 201, answer.text
        return str(json.loads(answer.text)["client_id"])

    def settled(self, client_id: str) -> tuple[str, str]:
        """The name of the copy and the last failure, once there is either."""
        outcome = ("", "")

        def look() -> bool:
            nonlocal outcome
            client, failure = self.write(
                lambda tx: (tx.clients.find(client_id), tx.logos.failure(client_id))
            )
            assert client is not None
            outcome = client.logo, failure
            return any(outcome)

        soon(look)
        return outcome

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.servers.write(work)

    def sign_in_page(self, client_id: str, person: UserAgent | None = None) -> Shown:
        parameters = {
            "client_id": client_id,
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": "notes:read" if client_id.startswith("client_") else "read",
            "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
            "code_challenge_method": "S256",
        }
        person = person or UserAgent(self.servers.auth_url)
        return person.open(f"{self.servers.auth_url}/oauth/authorize?{urlencode(parameters)}")

    def consent_page(self, client_id: str) -> Shown:
        person = UserAgent(self.servers.auth_url)
        page = self.sign_in_page(client_id, person)
        return person.sign_in(page, "ada", PASSWORD)

    def colour(self, path: str) -> tuple[int, ...]:
        answer = requests.get(self.servers.auth_url + path, timeout=CEILING)
        assert answer.status_code == 200, path
        with Image.open(io.BytesIO(answer.content)) as image:
            return tuple(image.convert("RGB").getpixel((64, 64)))  # type: ignore[arg-type]


def shown_images(page: Shown) -> list[str]:
    """The images of apps on a page, whose policy must not name another server in any case."""
    assert page.status == 200, page.text
    policy = str(page.headers["content-security-policy"])
    assert re.search(r"; img-src 'self';", policy), policy
    images = re.findall(r'<img class="face"\s+src="([^"]*)"', page.body)
    assert all(re.fullmatch(r"/logos/[\w-]{22}", path) for path in images), images
    return images


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("logos")
    shown = certificate(folder, "localhost")
    inside = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    settings = Settings(
        fetch=FetchSettings(allow=inside, ca_file=str(shown.ca_file)),
        registration=RegistrationSettings(mode=RegistrationMode.OPEN, scopes=("notes:read",)),
    )
    with (
        pages(shown.context) as images,
        Servers(folder, settings=settings, with_resource=False) as servers,
    ):
        servers.register_user("ada", PASSWORD, uid=1001)
        # The header lies: what it is, the content says.
        images.at = {
            "/red.png": Page(png(RED), "text/html"),
            "/blue.png": Page(png(BLUE), "image/png"),
        }
        yield World(servers, images)


def test_logo_copy_is_shown_at_consent_and_before_sign_in_only_if_verified(world: World) -> None:
    world.app("printer", f"{world.images.url}/red.png")
    name, _ = world.settled("printer")
    assert shown_images(world.sign_in_page("printer")) == []
    assert shown_images(world.consent_page("printer")) == [f"/logos/{name}"]

    answer = requests.get(f"{world.servers.auth_url}/logos/{name}", timeout=CEILING)
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    red, _, blue = world.colour(f"/logos/{name}")
    assert red > 150 > blue

    assert world.write(lambda tx: tx.clients.verify("printer", world.servers.clock.now()))
    soon(lambda: shown_images(world.sign_in_page("printer")) == [f"/logos/{name}"])


@pytest.mark.parametrize("way", ["verify", "adopt"])
def test_self_registered_logo_is_not_fetched_before_verify_or_adopt(world: World, way: str) -> None:
    client_id = world.self_registered(f"App to {way}", f"{world.images.url}/blue.png?{way}")
    # Fetched in order: when this one is there, the other was looked at.
    world.app(f"after-{way}", f"{world.images.url}/red.png")
    world.settled(f"after-{way}")
    assert f"/blue.png?{way}" not in world.images.asked
    page = world.sign_in_page(client_id)
    assert shown_images(page) == []
    assert "evil.test" not in page.body
    consent = world.consent_page(client_id)
    assert shown_images(consent) == []
    assert all(address in consent.body for address in PAPERS.values())

    world.images.at[f"/blue.png?{way}"] = world.images.at["/blue.png"]
    now = world.servers.clock.now()
    if way == "verify":
        assert world.write(lambda tx: tx.clients.verify(client_id, now))
    else:
        assert world.write(lambda tx: adopt(tx, client_id, now))
    name, _ = world.settled(client_id)
    soon(lambda: shown_images(world.consent_page(client_id)) == [f"/logos/{name}"])


def test_logo_fetched_from_a_replaced_address_is_discarded(world: World) -> None:
    release = Event()
    world.images.at["/old.png"] = Page(png(RED), "image/png", release=release)
    world.app("mover", f"{world.images.url}/old.png")
    soon(lambda: "/old.png" in world.images.asked)

    def move(tx: Transaction, logo: str) -> None:
        client = tx.clients.find_to_change("mover")
        assert client is not None
        assert tx.clients.change(replace(client, logo_uri=logo))

    world.write(lambda tx: move(tx, f"{world.images.url}/blue.png"))
    release.set()
    name, _ = world.settled("mover")
    red, _, blue = world.colour(f"/logos/{name}")
    assert blue > 150 > red

    # The copy of an address that is not the app's any more is gone.
    world.write(lambda tx: move(tx, ""))
    assert (
        requests.get(f"{world.servers.auth_url}/logos/{name}", timeout=CEILING).status_code == 404
    )
    soon(lambda: shown_images(world.consent_page("mover")) == [])


@pytest.mark.parametrize(
    ("path", "page", "check"),
    [
        ("/script.svg", Page(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/png"), "type"),
        ("/page.png", Page(b"<!doctype html><script>alert(1)</script>", "image/png"), "type"),
        ("/large.png", Page(png(RED) + b"\0" * 300_000, "image/png"), "fetch.large"),
        ("/moved.png", Page(status=302, headers=(("location", "/red.png"),)), "fetch.status"),
    ],
)
def test_invalid_logo_is_not_shown_and_explained_in_the_portal(
    world: World, path: str, page: Page, check: str
) -> None:
    client_id = path.strip("/").partition(".")[0]
    world.images.at[path] = page
    world.app(client_id, f"{world.images.url}{path}")
    assert world.settled(client_id)[1].endswith(check)
    assert shown_images(world.consent_page(client_id)) == []

    owner = Membership(client_id, 1001, TeamRole.OWNER, world.servers.clock.now())  # type: ignore[arg-type]
    assert world.write(lambda tx: tx.members.add(owner))
    person = UserAgent(world.servers.auth_url)
    person.sign_in(person.open(f"{world.servers.auth_url}/oauth/sign-in"), "ada", PASSWORD)
    health = f"{world.servers.auth_url}/developer/apps/{client_id}/health"
    assert "The logo could not be used" in person.open(health).text

    world.images.at[path] = world.images.at["/blue.png"]
    request_count = world.images.asked.count(path)
    # The server remembers for five seconds that an address gave nothing.
    world.servers.clock.forward(world.servers.settings.tokens.access_token_lifetime)
    person.submit(person.open(f"{health}/fetch-logo"), "fix")
    soon(lambda: bool(world.settled(client_id)[0]))
    assert world.images.asked.count(path) > request_count
    assert "The logo could not be used" not in person.open(health).text


@pytest.mark.parametrize(
    "path", ["/logos/x", f"/logos/{'A' * 22}", "/logos/%00", "/logos/../errors/", "/logos/a%2Fb"]
)
def test_unknown_logo_names_are_not_found(world: World, path: str) -> None:
    session = requests.Session()
    request = requests.Request("GET", world.servers.auth_url).prepare()
    request.url = world.servers.auth_url + path
    assert session.send(request, timeout=CEILING).status_code == 404


def test_logos_at_private_addresses_are_never_fetched(tmp_path: Path) -> None:
    with (
        pages() as images,
        Servers(tmp_path, with_resource=False) as servers,
    ):
        it = World(servers, images)
        for number, host in enumerate(("127.0.0.1", "localhost", "0.0.0.0", "192.168.0.1")):
            port = images.url.rpartition(":")[2]
            it.app(f"inside{number}", f"https://{host}:{port}/red.png")
            name, failure = it.settled(f"inside{number}")
            assert (name, failure) == ("", "fetch.address")
        assert images.connections == 0
