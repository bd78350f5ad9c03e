"""The container's configuration and the environment of compose.yaml are right for this version."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.deploy.nginx import DEPLOY
from valetkey.authorization.site.documentation import ARCHIVE

_GIVEN = {"AUTH_HOST": "auth.example.com", "API_HOST": "api.example.com", "POSTGRES_PASSWORD": "p"}


def _environment() -> dict[str, str]:
    """Return what compose.yaml puts into the container's environment."""
    text = (DEPLOY / "container/compose.yaml").read_text()
    variables = dict(re.findall(r'^      (VALETKEY__\w+): "(.*)"$', text, re.MULTILINE))
    return {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda used: _GIVEN[used[1]], value)
        for name, value in variables.items()
    }


def test_environment_of_compose_makes_a_valid_configuration(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("valetkey")), "config", "explain", "--config"]
    done = subprocess.run(
        [*command, str(DEPLOY / "container/valetkey.toml")],
        cwd=tmp_path,
        env={**os.environ, **_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "https://auth.example.com" in done.stdout
    assert "172.31.84.0/24" in done.stdout
    assert "valetkey_resource" in done.stdout


def test_caddy_accepts_its_configuration() -> None:
    caddy = shutil.which("caddy")
    assert caddy is not None, "caddy is missing"
    done = subprocess.run(
        [caddy, "adapt", "--validate", "--config", str(DEPLOY / "container/Caddyfile")],
        env={**os.environ, **_GIVEN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for host, upstream in (
        ("auth.example.com", "valetkey:8400"),
        ("api.example.com", "valetkey:8401"),
    ):
        assert host in done.stdout
        assert upstream in done.stdout


def test_image_is_built_with_what_the_documentation_needs() -> None:
    image = (DEPLOY / "container/Containerfile").read_text()
    assert "--require-hashes -r docs/site.lock" in image
    lock = (ROOT / "docs/site.lock").read_text()
    for package in ("hatchling", "zensical", "msgspec"):
        assert f"\n{package}==" in f"\n{lock}"
    archive = str(ARCHIVE.relative_to(ROOT))
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv", f"/{archive}"} <= set(ignored)


def test_image_writes_to_its_volume_alone() -> None:
    image = (DEPLOY / "container/Containerfile").read_text()
    settings = (DEPLOY / "container/valetkey.toml").read_text()
    volume = re.search(r"^VOLUME (\S+)$", image, re.MULTILINE)
    assert volume is not None
    paths = re.findall(r'"(?:sqlite:///)?(/[^"]+)"', settings)
    assert len(paths) == 4
    assert all(path.startswith(volume[1] + "/") for path in paths)
    assert "USER 65532:65532" in image
