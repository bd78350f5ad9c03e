"""A pytest plugin: what is left out where a program is missing, and that it is said aloud."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
APACHE_MODULES = Path("/usr/lib/apache2/modules")
_PACKAGES = FOLDER / "node_modules" / "openid-client"
_BESIDE_PYTHON = Path(sys.executable).parent


def find_node() -> str | None:
    """The Node that the lock pins, else one on the path, from 20 on; None without its packages."""
    for program in (shutil.which("node", path=_BESIDE_PYTHON), shutil.which("node")):
        if program is not None and _PACKAGES.is_dir() and _major_version(program) >= 20:
            return program
    return None


def find_curl() -> str | None:
    """curl, if it is here."""
    return shutil.which("curl")


def find_nginx() -> str | None:
    """nginx, if it is here; Debian keeps it where only root looks."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def find_proxy(name: str) -> str | None:
    """Caddy and HAProxy, as Debian has them; Traefik and Envoy, as they lie beside Python."""
    beside = shutil.which(name, path=_BESIDE_PYTHON)
    return beside or shutil.which(name) or shutil.which(name, path="/usr/sbin")


def find_apache() -> str | None:
    """Apache, if it is here with the module that signs people in."""
    if not (APACHE_MODULES / "mod_auth_openidc.so").exists():
        return None
    return shutil.which("apache2") or shutil.which("apache2", path="/usr/sbin")


def _major_version(node: str) -> int:
    result = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    number = result.stdout.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0


_LOUDLY = {
    "node": (
        find_node(),
        "No Node 20 with its packages, so openid-client and oauth4webapi were NOT tried.",
    ),
    "curl": (
        find_curl(),
        "No curl: S11 to S14 were NOT tried with it. On Debian: apt-get install curl",
    ),
    "nginx": (
        find_nginx(),
        "No nginx: what deploy/ says of it was NOT tried. On Debian: apt-get install nginx-light",
    ),
    "apache": (
        find_apache(),
        "No Apache that people sign in to. Debian: apt-get install libapache2-mod-auth-openidc",
    ),
    "caddy": (
        find_proxy("caddy"),
        "No Caddy: what deploy/ says of it was NOT tried. On Debian: apt-get install caddy",
    ),
    "haproxy": (
        find_proxy("haproxy"),
        "No HAProxy: requests were NOT smuggled through it. On Debian: apt-get install haproxy",
    ),
    "oidc_agent": (
        shutil.which("oidc-agent"),
        "No oidc-agent: its preset was NOT tried. On Debian: apt-get install oidc-agent-cli",
    ),
    "systemd_analyze": (
        shutil.which("systemd-analyze"),
        "No systemd: the unit in deploy/ was NOT judged. On Debian: apt-get install systemd",
    ),
    "traefik": (
        find_proxy("traefik"),
        "No Traefik: what deploy/ says of it was NOT tried. It is in the lock for Linux on x86-64.",
    ),
    "envoy": (
        find_proxy("envoy"),
        "No Envoy: what deploy/ says of it was NOT tried. It is in the lock for Linux on x86-64.",
    ),
}
# In CI nothing is left out: there, tests that need a missing program fail.
_LEFT_OUT = {
    fixture: why
    for fixture, (program, why) in _LOUDLY.items()
    if program is None and not os.environ.get("CI")
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [
        item
        for item in items
        if isinstance(item, pytest.Function) and _LEFT_OUT.keys() & set(item.fixturenames)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why in _LEFT_OUT.values():
        terminalreporter.write_line(f"LEFT OUT: {why}", red=True, bold=True)
