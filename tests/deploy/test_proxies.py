"""The real Caddy, Traefik and Envoy ask us before they let a request through, as deploy/ says."""

import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.deploy import proxies
from tests.deploy.conftest import CLIENT, SECRET, Behind, Site, behind
from tests.deploy.nginx import running
from tests.support.wait import CEILING, wait_until
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.resource.forward_auth import identity
from valetkey.sdk import Caller

_PATIENCE = CEILING
_OURS = [
    name
    for name, _ in identity(Caller("1", "c", Scope.of("s"), "at", None, Instant(1), Instant(2)))
]


@contextmanager
def _behind(
    program: str, folder: Path, command: Callable[[str, Behind, int], Sequence[str]]
) -> Generator[Site]:
    port = free_port()
    with behind(folder) as there, running(command(program, there, port), port, folder / "log"):
        site = Site(there.servers, f"https://127.0.0.1:{port}", there.certificate, folder / "log")
        _await_answer(site)
        yield site


def _await_answer(site: Site) -> None:
    # Some listen before they have read their certificate and their routes.
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if site.get("/app").status_code == 401:
                return
        except requests.ConnectionError:
            pass
        assert time.monotonic() < deadline, "the proxy does not guard"
        time.sleep(0.05)


class Guarded:
    """What holds behind each of them."""

    underscores = 200
    """What becomes of a request with a header that only looks like ours."""

    def test_with_a_token_the_application_learns_who_is_calling(self, site: Site) -> None:
        answer = site.get("/app", site.token("notes:read notes:write"))
        assert answer.status_code == 200, answer.text
        seen = answer.json()
        assert seen["x-valetkey-subject"] == "1001"
        assert seen["x-valetkey-subject-type"] == "user"
        assert seen["x-valetkey-client"] == CLIENT
        assert set(seen["x-valetkey-scope"].split(" ")) == {"notes:read", "notes:write"}
        assert seen["x-valetkey-token-id"]
        assert int(seen["x-valetkey-expires-at"]) > time.time()
        assert "authorization" not in seen

    def test_without_a_token_it_is_401_with_a_challenge(self, site: Site) -> None:
        answer = site.get("/app")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer realm=")
        wrong = site.get("/app", "not.a.token")
        assert wrong.status_code == 401
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]

    def test_another_scope_is_403_and_says_which_would_do(self, site: Site) -> None:
        answer = site.get("/app", site.token("notes:write"))
        assert answer.status_code == 403
        assert 'scope="notes:read"' in answer.headers["www-authenticate"]

    def test_the_caller_does_not_say_what_is_needed(self, site: Site) -> None:
        token = site.token("notes:write")
        for query in ("?scope=notes:write", "%3Fscope=notes:write"):
            assert site.get("/app" + query, token).status_code == 403, query
        header = {"X-Valetkey-Required-Scope": "notes:write"}
        assert site.get("/app", token, **header).status_code == 403
        uri = {"X-Forwarded-Uri": "/forward-auth?scope=notes:write"}
        assert site.get("/app", token, **uri).status_code == 403

    def test_identity_that_the_caller_made_up_does_not_pass(self, site: Site) -> None:
        token = site.token("notes:read")
        forged = {spelled: "forged" for name in _OURS for spelled in (name, name.upper())}
        seen = site.get("/app", token, **forged).json()
        assert not [name for name, value in seen.items() if "forged" in value]
        assert seen["x-valetkey-subject"] == "1001"
        alike = {name.replace("-", "_"): "forged" for name in _OURS}
        answer = site.get("/app", token, **alike)
        assert answer.status_code == self.underscores
        assert "forged" not in answer.text

    def test_two_of_our_headers_do_not_pass_either(self, site: Site) -> None:
        said = _raw(
            site,
            f"Authorization: Bearer {site.token('notes:read')}",
            "X-Valetkey-Subject: forged",
            "X-Valetkey-Subject: forged",
        )
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b"forged" not in said

    def test_two_tokens_are_refused(self, site: Site) -> None:
        field = f"Authorization: Bearer {site.token('notes:read')}"
        said = _raw(site, field, field)
        assert not said.startswith(b"HTTP/1.1 2")
        assert b"x-valetkey-subject" not in said

    def test_a_revoked_token_stops_working_within_five_seconds(self, site: Site) -> None:
        token = site.token("notes:read")
        assert site.get("/app", token).status_code == 200
        revoked = requests.post(
            f"{site.servers.auth_url}/oauth/revoke",
            {"token": token},
            auth=(CLIENT, SECRET),
            timeout=60,
        )
        assert revoked.status_code == 200
        wait_until(lambda: site.get("/app", token).status_code != 200)
        assert site.get("/app", token).status_code == 401

    def test_no_log_has_a_query_or_a_token(self, site: Site) -> None:
        token = site.token("notes:read")
        assert site.get("/app?canary-in-query", token).status_code == 200
        assert site.get("/app?canary-in-query").status_code == 401
        gone = site.get("/gone?canary-in-query", token).status_code
        assert gone in {502, 503}
        wait_until(lambda: "401" in site.log.read_text() and str(gone) in site.log.read_text())
        log = site.log.read_text()
        assert "canary" not in log
        assert token not in log
        assert "Bearer ey" not in log


class TestCaddy(Guarded):
    """Debian's Caddy."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, caddy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(caddy, tmp_path_factory.mktemp("caddy"), proxies.caddy) as found:
            yield found


class TestTraefik(Guarded):
    """The Traefik that the lock pins."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, traefik: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(traefik, tmp_path_factory.mktemp("traefik"), proxies.traefik) as found:
            yield found


class TestEnvoy(Guarded):
    """The Envoy that the lock pins."""

    underscores = 400

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, envoy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(envoy, tmp_path_factory.mktemp("envoy"), proxies.envoy) as found:
            yield found


def _raw(site: Site, *fields: str) -> bytes:
    """What is answered to a request with exactly these fields."""
    context = ssl.create_default_context(cafile=str(site.certificate))
    port = int(site.url.rpartition(":")[2])
    lines = ["GET /app HTTP/1.1", f"Host: {site.host}", "Connection: close", *fields]
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as sock,
    ):
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        said = b""
        while piece := sock.recv(65_536):
            said += piece
    return said.lower().replace(b"http/1.1", b"HTTP/1.1", 1)
