"""The behaviour that every proxy of deploy/ shares: it authenticates callers by /forward-auth."""

import socket
import ssl
import time

import requests

from tests.deploy.conftest import CLIENT, SECRET, Site
from tests.support.wait import wait_until
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.resource.forward_auth import identity
from valetkey.sdk import Caller

_OURS = [
    name
    for name, _ in identity(Caller("1", "c", Scope.of("s"), "at", None, Instant(1), Instant(2)))
]


class Guarded:
    """What holds behind each proxy; a subclass starts it in the fixture `site`."""

    underscores = 200
    """The status of a request with a header whose name has _ where ours has -."""

    def test_application_receives_the_identity_of_a_valid_token(self, site: Site) -> None:
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

    def test_tls_has_the_ciphers_of_bcp_195(self, site: Site) -> None:
        for cipher, taken in (
            ("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256", True),
            ("ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256", False),
            ("ECDHE-RSA-AES256-SHA:ECDHE-ECDSA-AES256-SHA", False),
            ("ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-CHACHA20-POLY1305", False),
            ("AES128-GCM-SHA256:AES256-SHA:DHE-RSA-AES128-GCM-SHA256", False),
        ):
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(f"{cipher}:@SECLEVEL=0")
            host, port = site.url.removeprefix("https://").split(":")
            done = []
            try:
                with (
                    socket.create_connection((host, int(port)), timeout=60) as plain,
                    context.wrap_socket(plain, server_hostname=site.host) as safe,
                ):
                    done.append(safe.cipher())
            except (ssl.SSLError, ConnectionError):
                assert not taken, cipher
            assert bool(done) is taken, cipher

    def test_request_without_a_valid_token_gets_401_with_a_challenge(self, site: Site) -> None:
        answer = site.get("/app")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer realm=")
        assert "error=" not in answer.headers["www-authenticate"]
        wrong = site.get("/app", "not.a.token")
        assert wrong.status_code == 401
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]

    def test_another_scope_gets_403_with_the_required_scope(self, site: Site) -> None:
        answer = site.get("/app", site.token("notes:write"))
        assert answer.status_code == 403
        challenge = answer.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="notes:read"' in challenge

    def test_caller_cannot_choose_the_required_scope(self, site: Site) -> None:
        token = site.token("notes:write")
        for query in ("?scope=notes:write", "?valetkey_scope=notes:write", "%3Fscope=notes:write"):
            assert site.get("/app" + query, token).status_code == 403, query
        header = {"X-Valetkey-Required-Scope": "notes:write"}
        assert site.get("/app", token, **header).status_code == 403
        uri = {"X-Forwarded-Uri": "/forward-auth?scope=notes:write"}
        assert site.get("/app", token, **uri).status_code == 403

    def test_forged_identity_headers_are_not_forwarded(self, site: Site) -> None:
        token = site.token("notes:read")
        forged = {spelled: "forged" for name in _OURS for spelled in (name, name.upper())}
        seen = site.get("/app", token, **forged).json()
        assert not [name for name, value in seen.items() if "forged" in value]
        assert seen["x-valetkey-subject"] == "1001"
        alike = {name.replace("-", "_"): "forged" for name in _OURS}
        answer = site.get("/app", token, **alike)
        assert answer.status_code == self.underscores
        assert "forged" not in answer.text

    def test_repeated_identity_headers_of_the_caller_do_not_pass(self, site: Site) -> None:
        response = raw(
            site,
            f"Authorization: Bearer {site.token('notes:read')}",
            "X-Valetkey-Subject: forged",
            "X-Valetkey-Subject: forged",
        )
        assert response.startswith(b"HTTP/1.1 200 ")
        assert b"forged" not in response

    def test_two_tokens_are_refused(self, site: Site) -> None:
        field = f"Authorization: Bearer {site.token('notes:read')}"
        response = raw(site, field, field)
        assert not response.startswith(b"HTTP/1.1 2")
        assert b"x-valetkey-subject" not in response

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


def raw(site: Site, *fields: str) -> bytes:
    """Return the response to a request with exactly these fields, in lower case."""
    context = ssl.create_default_context(cafile=str(site.certificate))
    port = int(site.url.rpartition(":")[2])
    lines = ["GET /app HTTP/1.1", f"Host: {site.host}", "Connection: close", *fields]
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as sock,
    ):
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        response = b""
        while piece := sock.recv(65_536):
            response += piece
    return response.lower().replace(b"http/1.1", b"HTTP/1.1", 1)
