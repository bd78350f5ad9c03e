"""Debian's nginx, configured as in deploy/nginx, authenticates callers by /forward-auth."""

from pathlib import Path

from bench.ports import free_port
from tests.deploy.conftest import Site
from tests.deploy.guarded import Guarded
from tests.deploy.nginx import checked
from tests.sdk.certificate import self_signed
from tests.support.wait import wait_until

PAGE = "/reports/june.txt"


class TestNginx(Guarded):
    """nginx in front of an application."""

    def test_no_log_has_a_query_or_a_token(self, site: Site) -> None:
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


def test_static_page_needs_a_token_with_the_scope(site: Site) -> None:
    answer = site.get(PAGE, site.token("notes:read"))
    assert (answer.status_code, answer.text) == (200, "the report of June")
    for token, status in (("", 401), ("not.a.token", 401), (site.token("notes:write"), 403)):
        refused = site.get(PAGE, token)
        assert refused.status_code == status
        assert "June" not in refused.text


def test_subrequest_is_not_reachable_from_outside(site: Site) -> None:
    assert site.get("/_valetkey", site.token("notes:read")).status_code == 404


def test_identity_headers_with_dots_do_not_pass(site: Site) -> None:
    seen = site.get("/app", site.token("notes:read"), **{"X.Valetkey.Subject": "forged"}).json()
    assert not [name for name, value in seen.items() if "forged" in value]


def test_nginx_accepts_the_configuration_for_both_servers(nginx: str, tmp_path: Path) -> None:
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
