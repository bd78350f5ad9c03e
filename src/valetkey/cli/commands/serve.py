"""`valetkey serve`: both servers, or one of them, supervised."""

import asyncio
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import click

from valetkey.cli import options, say
from valetkey.cli.serving.supervise import Server, Supervisor
from valetkey.config.agreement import missing_files, servers
from valetkey.config.load import Mistakes, environment
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.refusal import Mistake
from valetkey.resource.objects.declared.directory import read_directory
from valetkey.resource.requests.ledger import VARIABLE, SharedLedger
from valetkey.web import log
from valetkey.web.listen import bind

_NOT_FOR_RESOURCE = "VALETKEY__AUTHORIZATION__KEYRING_TEXT"


@click.command()
@click.argument("server", type=click.Choice(["authorization", "resource"]), required=False)
@options.config_file
def command(server: str | None, config: Path | None) -> int:
    """Run both servers, or the one that is named, until SIGTERM or Ctrl-C.

    Databases, keys and the credential between the servers are made at the first start. When
    everything answers, one line says so on standard output: ready, with the URLs. A process that
    ends unasked is started again. Everything else is told on standard error.

    Exit code 0 after a stop, 1 if a server did not start, 2 if something is to be mended first.

    Example: valetkey serve --config valetkey.toml
    """
    settings = options.settings_of(config)
    names = (server,) if server else ("authorization", "resource")
    log.set_up(settings.log.level, settings.log.format)
    if problems := (*missing_files(settings, names), *read_directory(settings)[1]):
        raise Mistakes(str(settings.source.file or "the configuration"), problems)
    chosen = [(name, part) for name, part in servers(settings) if name in names]
    sockets = {name: _bound(name, part) for name, part in chosen}
    urls = {name: _url(part, sockets[name]) for name, part in chosen}
    with TemporaryDirectory(prefix="valetkey-") as folder:
        ledger = Path(folder) / "ledger"
        SharedLedger.begin(ledger)
        supervisor = Supervisor(
            [
                Server(
                    name,
                    _worker(name, settings),
                    sockets[name],
                    part.workers,
                    _environment(name, urls, sockets, ledger),
                )
                for name, part in chosen
            ],
            announce=lambda: _announce(urls),
        )
        return asyncio.run(supervisor.run())


def _announce(urls: Mapping[str, str]) -> None:
    say.line(" ".join(["ready", *(f"{name}={url}" for name, url in urls.items())]))
    sys.stdout.flush()


def _worker(name: str, settings: Settings) -> tuple[str, ...]:
    file = str(settings.source.file or "")
    # -P: what lies in the working directory is nobody's module.
    return (sys.executable, "-P", "-m", f"valetkey.cli.serving.{name}", file)


def _environment(
    name: str, urls: Mapping[str, str], sockets: Mapping[str, socket.socket], ledger: Path
) -> Mapping[str, str]:
    """What a child is given: not the other server's secrets, but the ports that were found."""
    given = dict(environment())
    if name == "resource":
        given.pop(_NOT_FOR_RESOURCE, None)
        given[VARIABLE] = str(ledger)
    for other, url in urls.items():
        given[f"VALETKEY__{other.upper()}__URL"] = url
        given[f"VALETKEY__{other.upper()}__LISTEN"] = _address(sockets[other])
    return given


def _bound(name: str, server: ServerSettings) -> socket.socket:
    host, _, port = server.listen.rpartition(":")
    try:
        return bind(host.strip("[]"), int(port))
    except Mistake as mistake:
        advice = "stop what listens there, or choose another"
        raise Mistake(f"{mistake.message}; {advice}", f"{name}.listen") from None


def _url(server: ServerSettings, listening: socket.socket) -> str:
    """The configured URL, whose port 0 stands for the port that the system chose."""
    if urlsplit(server.url).port != 0:
        return server.url
    return f"{server.url.removesuffix('0')}{_port(listening)}"


def _address(listening: socket.socket) -> str:
    host = str(listening.getsockname()[0])
    return f"[{host}]:{_port(listening)}" if ":" in host else f"{host}:{_port(listening)}"


def _port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])
