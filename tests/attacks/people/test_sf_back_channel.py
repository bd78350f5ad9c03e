"""SF-05, SF-11: the word of a session's end reaches no place inside, at once or out of the queue.

What counts is whether anybody knocked, not which function was called: the app's address leads to a
socket of this test that listens.
"""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.support.live import CALLBACK, CODE_GRANT, PASSWORD, LiveServers, secret_of
from tests.support.wait import CEILING, wait_until
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class Inside:
    """A service that is none of any app's business, and who knocked there."""

    port: int
    knocks: list[bytes] = field(default_factory=list[bytes])


@pytest.fixture
def inside() -> Iterator[Inside]:
    listener = socket.create_server(("127.0.0.1", 0))
    service = Inside(listener.getsockname()[1])

    def listen() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(CEILING)
                heard = connection.recv(4_096)
                # A test beside this one may have an API whose issuer had this port before.
                if not heard.startswith(b"GET /oauth/jwks "):
                    service.knocks.append(heard)
                connection.sendall(_ANSWER)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield service
    # Closing alone would leave the other thread waiting.
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(CEILING)


def _told(servers: Servers, address: str) -> None:
    """Alice signs in to an app with this back channel, and out again."""
    world = LiveServers(servers)
    servers.register_user("alice", PASSWORD)
    metadata = ClientMetadata(
        "Inside", redirect_uris=(CALLBACK,), grant_types=CODE_GRANT, scopes=("openid",)
    )
    client = servers.register_client(metadata, "inside", secret_of("inside"))
    # Registered before rules were stricter, or whatever else put it there: the door is the wall.
    changed = replace(client, openid=OpenIdRegistration(backchannel_logout_uri=address))
    assert servers.write(lambda tx: tx.clients.change(changed))
    person = UserAgent(servers.auth_url)
    page = world.ask(person, "inside", scope="openid")
    person.allow(person.sign_in(page, "alice", PASSWORD))
    out = person.open(f"{servers.auth_url}/oauth/sign-out")
    assert "You are signed out" in person.submit(out, "sign-out").text


def _attempts(servers: Servers) -> int:
    def work(tx: Transaction) -> int:
        row = tx.db.row("SELECT attempts FROM outbox")
        return 0 if row is None else int(row[0])

    return servers.write(work)


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/logout",
        "http://localhost:{port}/logout",
        "http://[::ffff:127.0.0.1]:{port}/logout",
        "https://127.0.0.1:{port}/logout",
        "http://0.0.0.0:{port}/logout",
        "http://2130706433:{port}/logout",
        "http://127.1:{port}/logout",
        "http://user@127.0.0.1:{port}/logout",
        "https://169.254.169.254/latest/meta-data",
    ],
)
def test_sf_05_sf_11_logout_token_is_never_sent_to_a_private_address(
    tmp_path: Path, inside: Inside, address: str
) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        _told(servers, address.format(port=inside.port))
        wait_until(lambda: _attempts(servers) == 1)
        # The second time it comes out of the queue, by another path through the program.
        servers.clock.forward(Lifetime(30))
        wait_until(lambda: _attempts(servers) == 2)
        assert inside.knocks == []


def test_sf_05_logout_token_is_sent_to_an_address_that_the_operator_lists(
    tmp_path: Path, inside: Inside
) -> None:
    fetch = FetchSettings(allow=(ip_network("127.0.0.0/8"),))
    with Servers(tmp_path, settings=Settings(fetch=fetch), with_resource=False) as servers:
        _told(servers, f"http://127.0.0.1:{inside.port}/logout")
        assert [knock.partition(b" ")[0] for knock in inside.knocks] == [b"POST"]
        assert _attempts(servers) == 0
