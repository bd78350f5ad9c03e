"""A full disk: readiness and `doctor` tell what requests meet."""

import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands.test_serve import eventually, get
from tests.cli.running import valetkey
from tests.cli.site import configure_ports, serving
from tests.support.wait import CEILING


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An installation whose databases lie on a disk of eight megabytes."""
    disk = tmp_path / "valetkey"
    disk.mkdir(mode=0o700)
    options = "size=8m,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def token(url: str, secret: str) -> int:
    form = urllib.parse.urlencode(
        {"grant_type": "client_credentials", "client_id": "robot", "client_secret": secret}
    )
    request = urllib.request.Request(f"{url}/oauth/token", form.encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=CEILING) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def fill(disk: Path) -> Path:
    file = disk / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65_536, 4_096):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                continue
    return file


def test_full_disk_is_not_ready_until_writes_succeed_again(small_disk: Path) -> None:
    configure_ports(small_disk)
    assert valetkey("database", "migrate", here=small_disk).code == 0
    create = ("--id", "robot", "--name", "Robot", "--grant-type", "client_credentials", "--json")
    tokens = ("--access-token-format", "reference")
    secret = valetkey("client", "create", *create, *tokens, here=small_disk).json["client_secret"]
    with serving(small_disk) as site:
        urls = (site.authorization, site.resource)
        assert token(site.authorization, secret) == 200
        assert [get(f"{url}/health/ready")[0] for url in urls] == [200, 200]
        filler = fill(small_disk / "valetkey")
        refused = 0
        while refused < 10:
            status = token(site.authorization, secret)
            ready = get(f"{site.authorization}/health/ready")[0]
            assert status in (200, 503)
            if status == 503:
                refused += 1
                assert ready == 503
        # A proof is remembered for a second while no write failed.
        eventually(lambda: get(f"{site.resource}/health/ready")[0] == 503, "it stays ready")
        assert [get(f"{url}/health/live")[0] for url in urls] == [200, 200]
        ran = valetkey("doctor", "--json", here=small_disk)
        bad = {finding["about"] for finding in ran.json["findings"] if finding["level"] == "error"}
        assert {"authorization database", "resource database"} <= bad
        filler.unlink()
        assert token(site.authorization, secret) == 200
        assert [get(f"{url}/health/ready")[0] for url in urls] == [200, 200]
