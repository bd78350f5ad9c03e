"""`valetkey settings`: running servers apply a change; the file wins; a reset undoes it."""

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.cli.running import valetkey
from tests.cli.site import configure, serving
from tests.support.wait import wait_until

MODE = "registration.mode"


def _registers(url: str) -> bool:
    place = f"{url}/.well-known/openid-configuration"
    try:
        with urllib.request.urlopen(place, timeout=10) as answer:
            return "registration_endpoint" in json.load(answer)
    except OSError:
        return False


def test_running_servers_apply_a_stored_setting_and_its_reset(tmp_path: Path) -> None:
    file = configure(tmp_path)
    with serving(tmp_path) as site:
        assert not _registers(site.authorization)
        done = valetkey("settings", "set", MODE, "open", here=tmp_path)
        assert done.code == 0, done.err
        wait_until(lambda: _registers(site.authorization))
        listed = valetkey("settings", "list", here=tmp_path)
        assert any(MODE in line and "stored" in line for line in listed.out.splitlines())
        # A worker that is killed starts with the stored value.
        killed = subprocess.run(
            ["pkill", "-KILL", "-P", str(site.process.pid), "-f", "serving.authorization"],
            check=False,
        )
        assert killed.returncode == 0
        wait_until(lambda: _registers(site.authorization))

        for wrong in (
            ("set", MODE, "sometimes"),
            ("set", "authorization.url", "https://x.example"),
        ):
            assert valetkey("settings", *wrong, here=tmp_path).code == 2
        assert valetkey("settings", "reset", "no.setting", here=tmp_path).code != 0
        assert valetkey("settings", "reset", MODE, here=tmp_path).code == 0
        wait_until(lambda: not _registers(site.authorization))

        text = file.read_text(encoding="utf-8")
        file.write_text(f'{text}[registration]\nmode = "open"\n', encoding="utf-8")
        os.kill(site.process.pid, signal.SIGHUP)
        wait_until(lambda: _registers(site.authorization))
        pinned = valetkey("settings", "set", MODE, "off", here=tmp_path)
        assert pinned.code == 2
        assert "configuration file" in pinned.err
