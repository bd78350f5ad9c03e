"""`valetkey reload`: a file that is right is used without an interruption, a wrong one is not."""

import os
import pty
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.cli.site import configure, serving
from tests.support.wait import wait_until


def _named(url: str, name: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/oauth/authorize?client_id=nobody")
    except urllib.error.HTTPError as refused:
        with refused:
            return name in refused.read().decode()
    return False


def test_reload_applies_a_changed_file_and_refuses_an_invalid_one(tmp_path: Path) -> None:
    file = configure(tmp_path)
    none = valetkey("reload", here=tmp_path)
    assert none.code == 2
    assert "no server runs here" in none.err
    with serving(tmp_path, subprocess.Popen) as site:
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text}[brand]\nname = 5\n", encoding="utf-8")
        refused = valetkey("reload", here=tmp_path)
        assert refused.code == 2
        assert "brand.name" in refused.err
        os.kill(site.process.pid, signal.SIGHUP)
        wait_until(lambda: "reload refused" in site.log.read_text())
        changed = text.replace("workers = 1", "workers = 2")
        file.write_text(f'{changed}[brand]\nname = "Second Name"\n', encoding="utf-8")
        ran = valetkey("reload", here=tmp_path)
        assert ran.code == 0, ran.err
        assert f"process {site.process.pid}" in ran.out
        wait_until(lambda: "needs a restart: authorization.workers" in site.log.read_text())
        wait_until(lambda: _named(site.authorization, "Second Name"))
        database = 'database = "sqlite:///other.db"\n'
        file.write_text(text.replace("[resource]\n", f"[resource]\n{database}"), encoding="utf-8")
        os.kill(site.process.pid, signal.SIGHUP)
        wait_until(lambda: "resource.database: changed" in site.log.read_text())
    assert not (tmp_path / "other.db").exists()
    assert not (tmp_path / "valetkey/authorization.pid").exists()


def test_servers_end_when_their_terminal_is_closed(tmp_path: Path) -> None:
    configure(tmp_path)
    # A child whose controlling terminal is `terminal`, as a shell starts it.
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        # Ignored if this suite was started with nohup, and children inherit that.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execve(PROGRAM, [str(PROGRAM), "serve"], clean_environment())
    output = b""
    while b"ready authorization=" not in output:
        output += os.read(terminal, 4_096)
    note = tmp_path / "valetkey/authorization.pid"
    assert int(note.read_text()) == child
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not note.exists()
