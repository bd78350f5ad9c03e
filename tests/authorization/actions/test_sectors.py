"""Sectors: what the site says that an app names as its own."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from threading import Thread

import pytest

from tests.support.harness import CALLBACK
from valetkey.authorization.actions.clients import Sectors
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

_PLAIN = ClientMetadata("Printer", redirect_uris=(CALLBACK, "https://other.example/cb"))
_GOOD = json.dumps([CALLBACK, "https://other.example/cb", "https://third.example/"])


@contextmanager
def _site(status: int, body: str, kind: str = "application/json") -> Generator[str]:
    """A site that says this to everybody."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sector"
    finally:
        server.shutdown()
        server.server_close()


def _faults(uri: str, *networks: str) -> list[str]:
    door = OutboundHttp([ip_network(network) for network in networks], SYSTEM.now)
    metadata = replace(_PLAIN, openid=OpenIdRegistration(sector_identifier_uri=uri))
    return [fault.field for fault in asyncio.run(Sectors(door).faults(metadata))]


def test_sector_document_with_every_redirect_uri_is_accepted() -> None:
    with _site(200, _GOOD) as uri:
        assert _faults(uri, "127.0.0.0/8") == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, json.dumps([CALLBACK])),
        (200, json.dumps([CALLBACK, "https://other.example/cb/"])),
        (200, "[]"),
        (200, json.dumps({"redirect_uris": [CALLBACK, "https://other.example/cb"]})),
        (200, "null"),
        (200, "[5, null]"),
        (200, "{"),
        (404, _GOOD),
        (302, _GOOD),
    ],
)
def test_other_sector_document_is_refused(status: int, body: str) -> None:
    with _site(status, body) as uri:
        assert _faults(uri, "127.0.0.0/8") == ["sector_identifier_uri"]


def test_sector_at_a_private_address_is_refused_if_no_network_is_listed() -> None:
    with _site(200, _GOOD) as uri:
        assert _faults(uri) == ["sector_identifier_uri"]


def test_client_without_sector_makes_no_request() -> None:
    assert _faults("") == []
