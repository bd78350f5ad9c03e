"""Other names of this server, and addresses that are a slash apart from a page."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.wait import CEILING
from valetkey.testing.server import Servers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(tmp_path_factory.mktemp("addresses")) as both_servers:
        yield both_servers


def ask(
    servers: Servers, path: str, *, host: str = "", method: str = "GET", base: str = ""
) -> requests.Response:
    headers = {"accept": "text/html", **({"host": host} if host else {})}
    return requests.request(
        method,
        (base or servers.auth_url) + path,
        headers=headers,
        allow_redirects=False,
        timeout=CEILING,
    )


def port(servers: Servers) -> int:
    return urlsplit(servers.auth_url).port or 0


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
@pytest.mark.parametrize("path", ["/", "/account/apps?ended=all", "/errors/"])
def test_page_under_another_loopback_name_redirects_to_the_configured_url(
    servers: Servers, name: str, path: str
) -> None:
    answer = ask(servers, path, host=f"{name}:{port(servers)}")
    assert (answer.status_code, answer.headers["location"]) == (307, servers.auth_url + path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/oauth/authorize?client_id=x"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/oauth/jwks"),
        ("GET", "/admin/api/v1/"),
        ("POST", "/oauth/token"),
        ("POST", "/account/apps/end"),
        ("POST", "/language"),
    ],
)
def test_api_and_form_requests_to_a_wrong_host_are_not_redirected(
    servers: Servers, method: str, path: str
) -> None:
    answer = ask(servers, path, host=f"localhost:{port(servers)}", method=method)
    assert answer.status_code == 421
    assert "location" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/account/apps", "/oauth/authorize", "/nothing"])
def test_page_for_a_wrong_host_shows_wrong_and_right_host(servers: Servers, path: str) -> None:
    answer = ask(servers, path, host="auth.wrong.example")
    assert answer.status_code == 421
    assert "auth.wrong.example" in answer.text
    assert f'href="{servers.auth_url}/"' in answer.text
    reference = answer.text.partition("VK-")[2][:14]
    kept = None
    for _ in range(600):
        kept = servers.write(lambda tx: tx.decisions.find(f"VK-{reference}"))
        if kept is not None:
            break
    assert kept is not None
    expected = urlsplit(servers.auth_url).netloc
    assert (kept.expected, kept.received) == (expected, "auth.wrong.example")
    # What makes it look like a page is served for any host.
    style = answer.text.partition('rel="stylesheet"')[2].partition('href="')[2].partition('"')[0]
    assert style.startswith("/assets/")
    assert ask(servers, style, host="auth.wrong.example").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example/<script>alert(1)</script>",
        'evil.example"onload=alert(1)',
        "evil.example' x",
        "a" * 5_000,
        "\xe9vil.example",
        "localhost@evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ],
)
def test_hostile_host_header_is_neither_redirected_to_nor_shown(
    servers: Servers, host: str
) -> None:
    answer = ask(servers, "/", host=host)
    assert answer.status_code in {400, 421, 431}
    assert "location" not in answer.headers
    for piece in ("<script>", "onload", "a" * 200, "\xe9vil", "@evil"):
        assert piece not in answer.text


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("/account/", "/account"),
        ("/account/apps/", "/account/apps"),
        ("/account/security/", "/account/security"),
        ("/developer/", "/developer"),
        ("/developer/apps/x/health/", "/developer/apps/x/health"),
        ("/admin/", "/admin"),
        ("/admin/users/", "/admin/users"),
        ("/errors", "/errors/"),
        ("/errors/not_found/", "/errors/not_found"),
        ("/notices/query-string/", "/notices/query-string"),
        ("/errors?a=b", "/errors/?a=b"),
    ],
)
def test_page_slash_is_corrected_by_redirect(servers: Servers, asked: str, found: str) -> None:
    answer = ask(servers, asked)
    assert (answer.status_code, answer.headers["location"]) == (308, found)
    assert ask(servers, asked, method="POST").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/oauth/authorize/",
        "/oauth/token/",
        "/oauth/jwks/",
        "/.well-known/openid-configuration/",
        "//evil.example/account/",
        "/admin/api/v1/users/",
        "/account/apps//",
    ],
)
def test_extra_slashes_are_not_redirected_on_other_paths(servers: Servers, path: str) -> None:
    session = requests.Session()
    prepared = requests.Request("GET", servers.auth_url).prepare()
    prepared.url = servers.auth_url + path
    answer = session.send(prepared, allow_redirects=False, timeout=CEILING)
    assert answer.status_code in {401, 404}
    assert "location" not in answer.headers


def test_api_page_without_its_trailing_slash_is_redirected(servers: Servers) -> None:
    answer = ask(servers, "/v2", base=servers.api_url)
    assert (answer.status_code, answer.headers["location"]) == (308, "/v2/")


def test_not_found_page_states_the_error_once_without_a_link_to_the_app(servers: Servers) -> None:
    text = ask(servers, "/nothing-here").text
    assert text.lower().count("page not found") + text.count("this page does not exist") == 2
    assert "Go back to the app" not in text


def test_account_path_redirects_to_the_front_page(servers: Servers) -> None:
    answer = ask(servers, "/account")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
