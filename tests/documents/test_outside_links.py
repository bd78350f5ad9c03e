"""The check of links that lead outside, against a server of the test."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from docs.outside import fault_of, outside


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_links_in_prose_are_found_without_examples() -> None:
    text = (
        "[a](https://a.test/page#part) [b](other.md) [c](https://auth.example.com/)\n\n"
        "```\n[d](https://d.test)\n```\n[e](https://a.test/page)\n"
    )
    assert outside([("docs/one.md", text), ("docs/two.md", text)]) == {
        "https://a.test/page": "docs/one.md"
    }


def test_missing_page_is_reported_and_status_403_is_not(site: str) -> None:
    assert not fault_of(f"{site}/200")
    assert not fault_of(f"{site}/403")
    assert fault_of(f"{site}/404") == "status 404"
    assert "refused" in fault_of("http://127.0.0.1:9/")
