"""The real nginx with our configuration: in the foreground, unprivileged, in a folder that goes."""

import os
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.support.wait import CEILING

DEPLOY = ROOT / "deploy"
_PATIENCE = CEILING

# One process, as whoever runs the tests; everything it writes stays in `prefix`.
AROUND = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/start.log warn;
events {{ worker_connections 256; }}
http {{
    default_type text/plain;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    include {prefix}/conf.d/*.conf;
}}
"""


def checked(program: str, prefix: Path, site: str, instead: Mapping[str, str]) -> list[str]:
    """The command that runs one of our sites, which nginx has found to be right.

    `instead` replaces what an operator would change; logs go to a folder `log`.
    """
    for folder in ("conf.d", "log"):
        (prefix / folder).mkdir()
    (prefix / "nginx.conf").write_text(AROUND.format(prefix=prefix))
    text = (DEPLOY / "nginx" / site).read_text()
    for named, ours in {**instead, "/var/log/nginx": f"{prefix}/log"}.items():
        assert named in text, f"{site} does not say {named}"
        text = text.replace(named, ours)
    (prefix / "conf.d" / site).write_text(text)
    command = [program, "-p", str(prefix), "-c", str(prefix / "nginx.conf")]
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return command


@contextmanager
def running(command: Sequence[str], port: int, log: Path | None = None) -> Generator[None]:
    """A proxy that answers on `port` while this lasts; in `log`, what it says."""
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _await(port, process)
            yield
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the proxy ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the proxy does not listen")
