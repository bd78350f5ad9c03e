"""`valetkey init`: a configuration by questions or by options, tried before it is written."""

import stat
import tomllib
from pathlib import Path

import pytest

from tests.cli.running import valetkey
from tests.cli.site import configure_ports, serving
from tests.cli.test_terminal import on_a_terminal

OWNER = ("--owner-email", "ada@example.com")


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_dialogue_writes_the_entered_settings(tmp_path: Path) -> None:
    shown = on_a_terminal(
        tmp_path,
        "init",
        answers=(
            ("URL of the authorization server", "https://auth.example.com"),
            ("URL of the API", ""),
            ("TLS ends", ""),
            ("Address of the proxy", "10.0.0.0/8"),
            ("Database of the authorization", ""),
            ("Database of the resource", ""),
            ("Mail server", ""),
            ("Email address of the first owner", "ada"),
            ("Email address of the first owner", "admin@example.com"),
            ("Username of the first owner [admin-example]", "root"),
            ("Username of the first owner [admin-example]", ""),
        ),
    )
    assert shown.code == 0, shown.screen
    assert _mode(tmp_path / "valetkey.toml") == 0o600
    text = (tmp_path / "valetkey.toml").read_text()
    assert 'trusted_proxies = ["10.0.0.0/8"]' in text
    assert 'listen = "0.0.0.0:8400"' in text
    assert "https://auth.example.com/admin" in shown.screen
    assert 'url = "https://api.example.com"' in text
    assert "[mail]" not in text
    assert "the username root cannot be used" in shown.screen
    (owner,) = valetkey("user", "roles", "--json", here=tmp_path).json
    assert (owner["username"], owner["role"]) == ("admin-example", "owner")


def test_configuration_from_options_passes_doctor_and_is_never_overwritten(tmp_path: Path) -> None:
    free = tomllib.loads(configure_ports(tmp_path).read_text())
    (tmp_path / "valetkey.toml").unlink()
    urls = ("--url", free["authorization"]["url"], "--api-url", free["resource"]["url"])
    options = ("--no-input", *urls, *OWNER)
    ran = valetkey("init", *options, here=tmp_path)
    assert ran.code == 0, ran.err
    with serving(tmp_path):
        doctor = valetkey("doctor", here=tmp_path)
    assert doctor.code == 0, doctor.out
    before = (tmp_path / "valetkey.toml").read_bytes()
    again = valetkey("init", *options, here=tmp_path)
    assert (again.code, again.out) == (2, "")
    assert "exists" in again.err
    assert (tmp_path / "valetkey.toml").read_bytes() == before


def test_init_creates_keyring_and_tables_on_postgresql(
    tmp_path: Path, postgres_url: str, another_postgres_url: str
) -> None:
    databases = ("--database", postgres_url, "--api-database", another_postgres_url)
    ran = valetkey("init", "--no-input", *OWNER, *databases, here=tmp_path)
    assert ran.code == 0, ran.err
    (ada,) = valetkey("user", "roles", "--json", here=tmp_path).json
    assert (ada["username"], ada["role"]) == ("ada", "owner")
    # A machine without the keyring migrates; it makes no other one.
    keyring = tmp_path / "valetkey.keyring"
    keyring.unlink()
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    assert not keyring.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "--owner-email is needed"),
        ((*OWNER, "--owner-username", "root"), "the username root cannot be used"),
        ((*OWNER, "--url", "ftp://x"), 'error: --url: "ftp://x" is not an http or https URL'),
        ((*OWNER, "--url", "http://[::1"), "http://[::1 is not a URL"),
        ((*OWNER, "--url", "https://a b.example"), "--url"),
        ((*OWNER, "--api-url", "https://b.example/x"), "error: --api-url: "),
        ((*OWNER, "--database", "postgresql://nobody@127.0.0.1:1/none"), "cannot be used"),
        (
            (
                *(*OWNER, "--mail-host", "127.0.0.1", "--mail-port", "1"),
                *("--mail-tls", "none", "--mail-from", "a@example.com"),
            ),
            "mail.host",
        ),
        (
            (
                *(*OWNER, "--url", "https://a.example.com", "--tls", "own"),
                *("--certificate", "none.pem", "--key", "none.pem"),
            ),
            "none.pem",
        ),
    ],
)
def test_invalid_options_are_refused_and_create_nothing(
    tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    ran = valetkey("init", "--no-input", *given, here=tmp_path)
    assert ran.code in {1, 2}, ran.err
    assert said in ran.err
    assert "authorization.url" not in ran.err
    assert not list(tmp_path.iterdir())
