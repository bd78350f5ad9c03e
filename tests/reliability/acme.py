"""Certificates by ACME, from Pebble: the authority with which Let's Encrypt tests its clients."""

import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509

from bench.ports import free_port
from tests.cli.running import clean_environment
from tests.deploy.nginx import running
from tests.reliability.changes import replaced
from tests.reliability.credentials import Authority
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support.wait import wait_until
from valetkey.fetch.certificate import self_signed
from valetkey.kernel.runtime import SYSTEM

_PEBBLE = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.8.0"
_WORDS = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}


def certificates(folder: Path, times: int, chance: random.Random) -> Outcome:
    """A server of two workers gets a certificate and renews it; five processes want to at once."""
    listen, directory = free_port(), free_port()
    node = Node(folder / "node")
    address = f"127.0.0.1:{listen}"
    more = f'[tls]\nacme = "https://localhost:{directory}/dir"\nacme_ca_file = "ca.pem"\n'
    configure(
        node.here,
        url=f"https://localhost:{listen}",
        listen=address,
        database="sqlite:///a/auth.db",
        more=more,
    )
    file = node.here / "valetkey.toml"
    text = file.read_text().replace("[tokens]", "workers = 2\n[tokens]", 1)
    file.write_text(text.replace('"warning"', '"info"'))
    _write_pebble(node.here, directory, listen)
    register(node.here)
    issued = node.here / "acme/authorization.pem"
    with (
        running(_pebble(folder), directory, node.here / "pebble.log"),
        stopped_in_the_end(node),
    ):
        node.start()
        shown = [wait_until(lambda: _served(listen))]
        for _ in range(times):
            issued.write_text(self_signed("localhost", SYSTEM.now(), days=1))
            with _several(node.here, 4):
                _reload(node)
                shown.append(wait_until(lambda: _new(listen, shown)))
        log = (node.here / "log").read_text()
    modes = {path.name: path.stat().st_mode & 0o777 for path in issued.parent.iterdir()}
    open_files = {name: mode for name, mode in modes.items() if mode & 0o077}
    held = log.count('"certificate.issued"') <= times + 1 and not open_files
    held = held and "certificate.not_issued" not in log
    counts = f"{times} renewals, {len(shown)} certificates served, each ordered once"
    promise = "issued and renewed without a restart, by one process, secrets for the owner only"
    return Outcome("Certificates by ACME (Pebble)", promise, counts, held)


def _served(port: int) -> bytes | None:
    """The certificate that is shown, if it is the authority's."""
    pem = ssl.get_server_certificate(("localhost", port), timeout=30).encode()
    certificate = x509.load_pem_x509_certificate(pem)
    return pem if "Pebble" in certificate.issuer.rfc4514_string() else None


def _new(port: int, shown: Sequence[bytes | None]) -> bytes | None:
    pem = _served(port)
    return None if pem in shown else pem


def _reload(node: Node) -> None:
    before = set(node.workers())
    assert node.process is not None
    node.process.send_signal(signal.SIGHUP)
    wait_until(lambda: replaced(node, before))


class _several:  # noqa: N801 - a context
    """So many further processes that want to renew the same certificate."""

    def __init__(self, here: Path, count: int) -> None:
        words = {**clean_environment(), "REQUESTS_CA_BUNDLE": str(here / "ca.pem")}
        command = (sys.executable, "-P", "-m", "valetkey.cli.serving.acme")
        with (here / "log").open("ab") as log:
            self._processes = [
                subprocess.Popen(
                    [*command, str(here / "valetkey.toml"), "authorization"],
                    cwd=here,
                    env=words,
                    stdout=log,
                    stderr=log,
                )
                for _ in range(count)
            ]

    def __enter__(self) -> None:
        """They run already."""

    def __exit__(self, *_: object) -> None:
        codes = [process.wait() for process in self._processes]
        assert not any(codes), codes


def _write_pebble(here: Path, directory: int, listen: int) -> None:
    authority = Authority(0)
    (here / "ca.pem").write_bytes(authority.pem)
    (here / "own.pem").write_bytes(authority.issue("localhost", 7))
    configuration = {
        "listenAddress": f"127.0.0.1:{directory}",
        "managementListenAddress": f"127.0.0.1:{free_port()}",
        "certificate": str(here / "own.pem"),
        "privateKey": str(here / "own.pem"),
        "httpPort": free_port(),
        "tlsPort": listen,
        "ocspResponderURL": "",
        "keyAlgorithm": "ecdsa",
        "retryAfter": {"authz": 1, "order": 1},
        "profiles": {"default": {"description": "90 days", "validityPeriod": 7_776_000}},
    }
    (here / "pebble.json").write_text(json.dumps({"pebble": configuration}))


def _pebble(folder: Path) -> list[str]:
    """The command that runs Pebble, built by Go where it is not installed."""
    program = shutil.which("pebble")
    if program is None:
        go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
        assert go is not None, "neither pebble nor Go is installed"
        environment = {**os.environ, "GOBIN": str(folder / "bin")}
        subprocess.run([go, "install", _PEBBLE], env=environment, check=True)
        program = str(folder / "bin/pebble")
    words = [f"{name}={value}" for name, value in _WORDS.items()]
    return ["env", *words, program, "-config", str(folder / "node/pebble.json")]
