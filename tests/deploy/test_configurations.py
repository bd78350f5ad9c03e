"""The configurations for proxies that are not installed here: what can be read off them."""

import pytest

from tests.deploy.nginx import DEPLOY
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope
from valetkey.resource.forward_auth import NEEDED, PATH, identity
from valetkey.sdk import Caller

CALLER = Caller("1", "c", Scope.of("s"), "at", None, Instant(1), Instant(2))
HEADERS = {name for name, _ in identity(CALLER)}
PROXIES = ("nginx/ask-valetkey.conf", "traefik/valetkey.yml", "caddy/Caddyfile", "envoy/envoy.yaml")


@pytest.mark.parametrize("file", [*PROXIES, "README.md"])
def test_every_identity_header_is_named(file: str) -> None:
    text = (DEPLOY / file).read_text().lower()
    assert not [name for name in HEADERS if name not in text]


@pytest.mark.parametrize("file", PROXIES)
def test_proxy_does_not_forward_the_access_token(file: str) -> None:
    text = (DEPLOY / file).read_text().lower()
    removed = (
        'proxy_set_header authorization     ""',
        'authorization: ""',
        "-authorization",
        "request_headers_to_remove: [authorization",
    )
    assert any(how in text for how in removed)


def test_every_proxy_calls_forward_auth_with_the_required_scope() -> None:
    for file in ("nginx/protected-site.conf", "traefik/valetkey.yml", "caddy/Caddyfile"):
        assert f"{PATH}?scope=" in (DEPLOY / file).read_text()
    envoy = (DEPLOY / "envoy/envoy.yaml").read_text()
    assert f"path_prefix: {PATH}\n" in envoy
    assert f"key: {NEEDED}," in envoy


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("nginx/protected-site.conf", "$request_method $uri $status"),
        ("nginx/valetkey.conf", "$request_method $uri $status"),
        ("traefik/traefik.yml", "RequestPath: drop"),
        ("caddy/Caddyfile", "request>uri regexp"),
        ("envoy/envoy.yaml", "%REQ_WITHOUT_QUERY(:PATH)%"),
    ],
)
def test_no_log_format_has_the_query(file: str, says: str) -> None:
    text = (DEPLOY / file).read_text()
    assert says in text
    assert "$request_uri" not in text
    assert '$request"' not in text


def test_lookalike_identity_headers_are_removed_or_refused() -> None:
    assert "aliasHeadersStrategy: delete\n" in (DEPLOY / "traefik/traefik.yml").read_text()
    caddy = (DEPLOY / "caddy/Caddyfile").read_text()
    assert all(f"request_header -X{between}Valetkey*\n" in caddy for between in "-_.")
    envoy = (DEPLOY / "envoy/envoy.yaml").read_text()
    assert "headers_with_underscores_action: REJECT_REQUEST\n" in envoy
    nginx = "".join(file.read_text() for file in (DEPLOY / "nginx").iterdir())
    assert not [
        directive
        for directive in ("underscores_in_headers on", "ignore_invalid_headers off")
        if directive in nginx
    ]
