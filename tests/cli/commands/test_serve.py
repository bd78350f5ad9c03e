"""`valetkey serve`: the real servers, from nothing to ready, and down again."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from errno import ECONNREFUSED
from pathlib import Path

import pytest

from bench.ports import free_port
from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.cli.site import begin, configure, serving
from tests.support.processes import children, is_alive, workers
from tests.support.wait import wait_until
from valetkey.authorization.site.documentation import ARCHIVE


def get(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def eventually(question: Callable[[], bool], what: str) -> None:
    wait_until(question, what)


def test_both_servers_start_without_a_database_and_stop_on_sigterm(tmp_path: Path) -> None:
    configure(tmp_path)
    documented = ARCHIVE.is_file()
    with serving(tmp_path, subprocess.Popen) as site:
        status, body = get(f"{site.authorization}/.well-known/oauth-authorization-server")
        assert status == 200
        assert json.loads(body)["issuer"] == site.authorization
        assert get(f"{site.resource}/health/ready")[0] == 200
        # Below the line for programs: the pages to open.
        assert site.process.stdout is not None
        shown = [site.process.stdout.readline().split() for _ in range(3 + documented + 1)]
        assert shown[0] == ["your", "account", f"{site.authorization}/"]
        assert shown[-1] == ["API", "reference", f"{site.resource}/v2/"]
        assert [get(words[-1])[0] for words in shown] == [200] * len(shown)
        assert get(f"{site.resource}/v2/account")[0] == 401
        processes = children(site.process.pid)
        assert len(processes) == 4
        assert len(workers(site.process.pid)) == 2
        for pid in processes:
            limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
            assert re.search(r"Max core file size +0 +0 ", limits)
        site.process.terminate()
        assert site.process.wait(60) == 0
        assert not any(is_alive(pid) for pid in processes)
        assert site.process.stdout is not None
        assert site.process.stdout.read() == ""
    folder = tmp_path / "valetkey"
    for secret in ("valetkey.keyring", "resource-server.credential", "authorization.db"):
        assert (folder / secret).stat().st_mode & 0o077 == 0


def test_sigint_stops_the_servers_with_exit_code_zero(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path, subprocess.Popen) as site:
        site.process.send_signal(signal.SIGINT)
        assert site.process.wait(60) == 0


def test_workers_share_a_port_and_one_that_is_killed_is_replaced(tmp_path: Path) -> None:
    configure(tmp_path, workers=2)
    with serving(tmp_path, subprocess.Popen) as site:
        before = {*workers(site.process.pid)}
        assert len(before) == 3
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: len({*workers(site.process.pid)} - before) == 1, "no new worker")
        eventually(lambda: '"worker.ready"' in site.log.read_text().split("restarting")[-1], "late")
        for _ in range(20):
            assert get(f"{site.authorization}/health/live")[0] == 200
            assert get(f"{site.resource}/health/live")[0] == 200


def test_servers_exit_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path, subprocess.Popen) as site:
        processes = children(site.process.pid)
        site.process.kill()
        eventually(lambda: not any(is_alive(pid) for pid in processes), "servers are alive")


def test_port_in_use_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "valetkey.toml").write_text(
            f'[authorization]\nurl = "http://127.0.0.1:{port}"\nlisten = "127.0.0.1:{port}"\n',
            encoding="utf-8",
        )
        ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert ran.out == ""
    assert "authorization.listen" in ran.err
    assert str(port) in ran.err
    assert not (tmp_path / "valetkey").exists()


def test_refused_start_accepts_no_connection(tmp_path: Path) -> None:
    """A proxy that were let in would answer 502; refused, it takes another node."""
    port = free_port()
    (tmp_path / "valetkey.toml").write_text(
        f'[authorization]\nurl = "http://127.0.0.1:{port}"\nlisten = "127.0.0.1:{port}"\n'
    )
    assert valetkey("database", "migrate", here=tmp_path).code == 0
    with closing(sqlite3.connect(tmp_path / "valetkey/authorization.db")) as raw, raw:
        newer = "SELECT 9999, package, '9999_newer.sql', hash FROM migrations LIMIT 1"
        raw.execute(f"INSERT INTO migrations {newer}")
    answers: Counter[int] = Counter()
    over = threading.Event()

    def connect() -> None:
        while not over.wait(0.01):
            with socket.socket() as client:
                answers[client.connect_ex(("127.0.0.1", port))] += 1

    client = threading.Thread(target=connect)
    client.start()
    ran = valetkey("serve", "authorization", here=tmp_path)
    over.set()
    client.join()
    assert ran.code == 2, ran.err
    assert "newer software" in ran.err
    assert set(answers) == {ECONNREFUSED}


def test_refused_metrics_listener_leaves_no_directory(tmp_path: Path) -> None:
    file, temporary = configure(tmp_path), tmp_path / "temporary"
    temporary.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f'[metrics]\nlisten = "127.0.0.1:{taken.getsockname()[1]}"\n'
        file.write_text(file.read_text(encoding="utf-8") + listen, encoding="utf-8")
        ran = valetkey("serve", here=tmp_path, environment={"TMPDIR": str(temporary)})
    assert ran.code == 2
    assert "metrics.listen" in ran.err
    assert not list(temporary.iterdir())


def test_server_called_localhost_answers_on_both_loopback_addresses(tmp_path: Path) -> None:
    file = configure(tmp_path, workers=2)
    file.write_text(file.read_text().replace("http://127.0.0.1", "http://localhost"))
    with serving(tmp_path, subprocess.Popen) as site:
        for url in (site.authorization, site.resource):
            port = urllib.parse.urlsplit(url).port
            for address in ("127.0.0.1", "::1") * 5:
                # The name is resolved here, as each program does in its own way.
                connection = http.client.HTTPConnection(address, port, timeout=60)
                headers = {"Host": f"localhost:{port}"}
                with closing(connection):
                    connection.request("GET", "/health/ready", headers=headers)
                    assert connection.getresponse().status == 200


def test_server_named_by_an_ip_address_listens_on_it_only(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path, subprocess.Popen) as site:
        port = urllib.parse.urlsplit(site.authorization).port
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("::1", port or 0), timeout=60)


def test_other_program_on_the_other_loopback_address_stops_the_start(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "valetkey.toml").write_text(
            f'[authorization]\nurl = "http://localhost:{port}"\nlisten = "127.0.0.1:{port}"\n',
            encoding="utf-8",
        )
        ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert ran.out == ""
    assert "authorization.listen" in ran.err
    assert f"[::1]:{port}" in ran.err


def test_a_keyring_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    configure(tmp_path)
    folder = tmp_path / "valetkey"
    folder.mkdir()
    (folder / "valetkey.keyring").write_text("x", encoding="ascii")
    (folder / "valetkey.keyring").chmod(0o644)
    ran = valetkey("serve", here=tmp_path)
    assert ran.code == 2
    assert ran.out == ""
    assert "chmod 600" in ran.err
    assert "the authorization server did not start" in ran.err


@pytest.mark.parametrize("name", ["authorization", "resource"])
def test_database_that_others_may_read_is_refused_by_every_command(
    tmp_path: Path, name: str
) -> None:
    configure(tmp_path)
    with serving(tmp_path, subprocess.Popen):
        pass
    file = tmp_path / f"valetkey/{name}.db"
    file.chmod(0o644)
    for command in (("serve",), ("database", "migrate"), ("doctor",), ("database", "check")):
        ran = valetkey(*command, here=tmp_path)
        assert ran.code != 0, command
        assert f"chmod 600 {file}" in ran.out + ran.err, command
        assert "ready" not in ran.out
    file.chmod(0o600)
    with serving(tmp_path, subprocess.Popen):
        names = {path.name for path in (tmp_path / "valetkey").iterdir()}
        assert {f"{name}.db", f"{name}.db-wal", f"{name}.db-shm"} <= names
        assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "valetkey").iterdir())


def test_resource_server_alone_requires_its_credential(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = valetkey("serve", "resource", here=tmp_path)
    assert ran.code == 2
    assert "resource.credential" in ran.err


def test_port_of_the_other_server_has_to_be_named(tmp_path: Path) -> None:
    configure(tmp_path)
    ran = valetkey("serve", "authorization", here=tmp_path)
    assert ran.code == 2
    assert "resource.url" in ran.err


def test_resource_server_gets_no_secret_of_the_authorization_server(tmp_path: Path) -> None:
    file = begin(tmp_path)
    file.write_text(
        f'{file.read_text()}[mail]\nhost = "127.0.0.1"\ntls = "none"\nuser = "post"\n'
        'from_address = "a@example.com"\n[metrics]\nlisten = "127.0.0.1:0"\n'
    )
    keyring = (tmp_path / "valetkey/valetkey.keyring").read_text(encoding="ascii")
    (tmp_path / "valetkey/valetkey.keyring").unlink()
    # Too long for the address of a Unix socket.
    long = tmp_path / ("x" * 100)
    long.mkdir()
    variables = {
        "VALETKEY__AUTHORIZATION__KEYRING_TEXT": keyring.replace("\n", ";").split(";", 1)[1],
        "VALETKEY__AUTHORIZATION__DATABASE": "sqlite:///valetkey/authorization.db",
        "VALETKEY__MAIL__PASSWORD": "canary",
        "TMPDIR": str(long),
    }
    with subprocess.Popen(
        [str(PROGRAM), "serve"],
        cwd=tmp_path,
        env={**clean_environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            environments = {
                Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[3]: Path(
                    f"/proc/{pid}/environ"
                ).read_bytes()
                for pid in children(process.pid)
            }
        finally:
            process.terminate()
            process.wait(60)
    for secret in (b"KEYRING_TEXT", b"AUTHORIZATION__DATABASE", b"canary"):
        held = {name: secret in text for name, text in environments.items()}
        assert held == {
            b"valetkey.cli.serving.authorization": True,
            b"valetkey.cli.serving.resource": False,
        }
    assert not (tmp_path / "valetkey/valetkey.keyring").exists()


@pytest.mark.parametrize("secret", ["canary-in-the-query-0123456789abcdef"])
def test_a_secret_in_a_query_string_is_in_no_log(tmp_path: Path, secret: str) -> None:
    file = configure(tmp_path)
    file.write_text(file.read_text() + '\n[log]\nlevel = "debug"\n', encoding="utf-8")
    with serving(tmp_path, subprocess.Popen) as site:
        query = urllib.parse.urlencode(
            {"grant_type": "client_credentials", "client_id": "nobody", "client_secret": secret}
        )
        request = urllib.request.Request(f"{site.authorization}/oauth/token?{query}", method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        with refused.value as answer:
            assert secret not in answer.read().decode()
    assert "/oauth/token" in site.log.read_text()
    assert secret not in site.log.read_text()
