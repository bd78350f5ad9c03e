"""Debian's real nginx asks us before it shows a page, as deploy/nginx says."""

import re
import socket
import ssl
import time
from pathlib import Path

import requests

from bench.ports import free_port
from tests.deploy.conftest import CLIENT, SECRET, Site
from tests.deploy.nginx import DEPLOY, checked
from tests.sdk.certificate import self_signed
from tests.support.wait import wait_until

PAGE = "/reports/june.txt"


def test_a_static_page_opens_with_a_token(site: Site) -> None:
    answer = site.get(PAGE, site.token("notes:read"))
    assert (answer.status_code, answer.text) == (200, "the report of June")


def test_without_a_token_it_is_401_with_a_challenge(site: Site) -> None:
    answer = site.get(PAGE)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer realm=")
    assert "error=" not in answer.headers["www-authenticate"]
    wrong = site.get(PAGE, "not.a.token")
    assert wrong.status_code == 401
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    assert "June" not in answer.text + wrong.text


def test_another_scope_is_403_and_says_which_would_do(site: Site) -> None:
    answer = site.get(PAGE, site.token("notes:write"))
    assert answer.status_code == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="notes:read"' in challenge
    assert "June" not in answer.text


def test_the_query_of_the_caller_does_not_say_what_is_needed(site: Site) -> None:
    token = site.token("notes:write")
    for query in ("?scope=notes:write", "?valetkey_scope=notes:write", "%3Fscope=notes:write"):
        assert site.get(PAGE + query, token).status_code == 403, query
    header = {"X-Valetkey-Required-Scope": "notes:write"}
    assert site.get(PAGE, token, **header).status_code == 403


def test_subrequest_is_not_reachable_from_outside(site: Site) -> None:
    assert site.get("/_valetkey", site.token("notes:read")).status_code == 404


def test_the_application_learns_who_is_calling_and_not_the_token(site: Site) -> None:
    answer = site.get("/app", site.token("notes:read notes:write"))
    assert answer.status_code == 200
    seen = answer.json()
    assert seen["x-valetkey-subject"] == "1001"
    assert seen["x-valetkey-subject-type"] == "user"
    assert seen["x-valetkey-client"] == CLIENT
    assert set(seen["x-valetkey-scope"].split(" ")) == {"notes:read", "notes:write"}
    assert seen["x-valetkey-token-id"]
    assert int(seen["x-valetkey-expires-at"]) > time.time()
    assert "authorization" not in seen


def test_identity_that_the_caller_made_up_does_not_pass(site: Site) -> None:
    names = re.findall(r"X-Valetkey-[A-Za-z-]+", (DEPLOY / "nginx/ask-valetkey.conf").read_text())
    assert len(set(names)) == 7
    forged = {
        spelled: "forged"
        for name in set(names)
        for between in ("-", "_", ".")
        for spelled in (name.replace("-", between), name.upper().replace("-", between))
        if "required" not in name.lower()
    }
    seen = site.get("/app", site.token("notes:read"), **forged).json()
    assert not [name for name, value in seen.items() if "forged" in value]
    assert seen["x-valetkey-subject"] == "1001"


def test_two_of_our_headers_do_not_pass_either(site: Site) -> None:
    head = (
        "GET /app HTTP/1.1\r\nHost: app.example.com\r\nConnection: close\r\n"
        f"Authorization: Bearer {site.token('notes:read')}\r\n"
        "X-Valetkey-Subject: forged\r\nX-Valetkey-Subject: forged\r\n\r\n"
    )
    said = _raw(site, head)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b"forged" not in said


def test_two_tokens_are_refused(site: Site) -> None:
    token = site.token("notes:read")
    twice = f"Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"
    said = _raw(site, f"GET {PAGE} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{twice}\r\n")
    assert b"June" not in said
    assert not said.startswith(b"HTTP/1.1 2")


def test_a_revoked_token_stops_working_within_five_seconds(site: Site) -> None:
    token = site.token("notes:read")
    assert site.get(PAGE, token).status_code == 200
    revoked = requests.post(
        f"{site.servers.auth_url}/oauth/revoke",
        {"token": token},
        auth=(CLIENT, SECRET),
        timeout=60,
    )
    assert revoked.status_code == 200
    wait_until(lambda: site.get(PAGE, token).status_code != 200)
    assert site.get(PAGE, token).status_code == 401


def test_no_log_has_a_query_or_a_token(site: Site) -> None:
    token = site.token("notes:read")
    assert site.get(f"{PAGE}?canary-in-query", token).status_code == 200
    assert site.get("/reports/missing?canary-in-query", token).status_code == 404
    log = site.log / "app.log"
    wait_until(lambda: "/reports/missing" in log.read_text())
    lines = log.read_text()
    assert f"GET {PAGE} 200" in lines
    everything = lines + (site.log / "app-error.log").read_text()
    assert "canary" not in everything
    assert token not in everything


def test_the_configuration_for_our_own_servers_is_taken(nginx: str, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    checked(
        nginx,
        tmp_path,
        "valetkey.conf",
        {
            "443": f"127.0.0.1:{free_port()}",
            "/etc/ssl/auth.example.com.pem": str(certificate),
            "/etc/ssl/auth.example.com.key": str(key),
            "/etc/ssl/api.example.com.pem": str(certificate),
            "/etc/ssl/api.example.com.key": str(key),
        },
    )


def _raw(site: Site, request: str) -> bytes:
    port = int(site.url.rpartition(":")[2])
    trust = ssl.create_default_context(cafile=str(site.certificate))
    said = bytearray()
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(request.encode())
        while more := connection.recv(65_536):
            said += more
    return bytes(said)
