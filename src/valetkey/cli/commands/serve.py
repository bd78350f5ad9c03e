"""`valetkey serve`: run both servers, or one of them, supervised."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import click

from valetkey.authorization.site.documentation import base_of
from valetkey.cli import options, say
from valetkey.cli.serving import folder, plan
from valetkey.cli.serving.plan import METRICS, NODE, Plan, Scraping, ServerPlan
from valetkey.cli.serving.recheck import fixed, wrong_objects
from valetkey.cli.serving.supervise import STOPS, ends_with_terminal
from valetkey.config.agreement import missing_files, servers
from valetkey.config.catalogue import catalogue
from valetkey.config.environment import environment
from valetkey.config.load import OperatorErrors
from valetkey.config.paths import certificate_files, monitoring_token, process_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.requests.allowance import VARIABLE, SharedCounters
from valetkey.web.connection.bind import bind, bind_named, listen

_ANEW = "valetkey.cli.commands.database"
_LEDGER = "ledger"
_NOT_FOR_RESOURCE = ("VALETKEY__AUTHORIZATION__KEYRING_TEXT", "VALETKEY__AUTHORIZATION__DATABASE")


@click.command()
@click.argument("server", type=click.Choice(["authorization", "resource"]), required=False)
@options.new
@options.config_file
@options.config_folder
def command(server: str | None, new: bool, config: Path | None, configs: Path | None) -> int:
    """Run both servers, or the named one, until SIGTERM or Ctrl-C.

    With `resource.enabled = false` the authorization server runs alone.

    The first start creates databases, keys and the credential between the servers. A database that
    is missing although it existed, was replaced, or is older than before, stops the start. When the
    servers are ready, they print one line with their URLs to standard output, and the pages to open
    below it; everything else is logged to standard error. A process that ends unexpectedly is
    restarted. SIGTERM drains: see `serving.drain`; SIGHUP does what `valetkey reload` does. Sockets
    opened by systemd are used.

    With `--configs FOLDER`, one process serves several issuers, each configured by its
    `NAME/valetkey.toml` or `NAME.toml`. The Host of a request selects the issuer; where no proxy
    provides TLS, the host name in the handshake selects its certificate. One whose configuration,
    certificate or database cannot be used answers 503 and is tried again; the others are not
    affected.

    Exit code 0 after a stop, 1 if a server did not start, 2 if there are errors to fix first.

    Example: valetkey serve --config valetkey.toml
    """
    if configs is not None:
        if new:
            raise OperatorError("it is for one configuration: name it with --config", "--new")
        _serve_several(configs, server)
    settings = options.settings_of(config)
    names = (server,) if server else tuple(name for name, _ in servers(settings))
    if server == "resource" and not settings.resource.enabled:
        raise OperatorError(
            "it is false, so there is no resource server to run", "resource.enabled"
        )
    if problems := (*missing_files(settings, names), *wrong_objects(settings)):
        raise OperatorErrors(str(settings.source.file or "the configuration"), problems)
    if new:
        import_module(_ANEW).forget_missing_databases(settings, names)
    chosen = [(name, part) for name, part in servers(settings) if name in names]
    for name, part in servers(settings):
        if name not in names and urlsplit(part.url).port == 0:
            wrong = "the server chooses its port when both start together; name the port"
            raise OperatorError(wrong, f"{name}.url")
    activated_sockets = _activated()
    sockets = {name: _bound(name, part, activated_sockets) for name, part in chosen}
    urls = {name: _url(part, sockets[name][0]) for name, part in chosen}
    scraped = _scraped(settings)
    _take_over(
        settings,
        {name: part.workers for name, part in chosen},
        scraped,
        lambda run, scraping: [
            ServerPlan(
                name,
                tuple(sock.fileno() for sock in sockets[name]),
                part.workers,
                *_words(name, urls, sockets, run, scraping),
                (scraped.fileno(),) if scraped is not None else (),
                tls=tuple(map(str, certificate_files(settings, part) or ())),
            )
            for name, part in chosen
        ],
        ready="\n".join(_ready_lines(settings, urls, scraped)),
        file=str(settings.source.file or ""),
        fixed=fixed(settings, names),
        notes=tuple(str(process_path(settings, part)) for _, part in chosen),
    )


def _serve_several(directory: Path, only: str | None) -> NoReturn:
    """Serve the issuers of a folder. Raises OperatorError if none of them can be served."""
    configurations = folder.read(directory)
    usable = [
        (configuration, configuration.settings)
        for configuration in configurations
        if configuration.settings is not None
    ]
    for configuration in configurations:
        for problem in folder.problems(configuration, only):
            say.error(f"issuer {configuration.name} answers 503: {problem}")
    if not usable:
        raise OperatorError(f"{directory} has no usable configuration", "--configs")
    process = folder.process_settings()
    parts = [
        (name, part, process_path(settings, part))
        for _, settings in usable
        for name, part in servers(settings)
        if only in {None, name}
    ]
    activated_sockets = _activated()
    sockets: dict[str, dict[str, tuple[socket.socket, ...]]] = {}
    for name, part, _ in parts:
        if part.listen not in sockets.setdefault(name, {}):
            sockets[name][part.listen] = _bound(name, part, activated_sockets)
    clear = {
        (name, part.listen)
        for _, settings in usable
        for name, part in servers(settings)
        if certificate_files(settings, part) is None
    }
    silent = {
        name: tuple(
            one.fileno()
            for at, listeners in every.items()
            if (name, at) not in clear
            for one in listeners
        )
        for name, every in sockets.items()
    }
    bound = {
        name: [one for listeners in every.values() for one in listeners]
        for name, every in sockets.items()
    }
    scraped = _scraped(process)
    metrics = "" if scraped is None else f" metrics=http://{_address(scraped)}/metrics"
    workers = {name: part.workers for name, part in servers(process)}
    _take_over(
        process,
        {name: workers[name] for name in sockets},
        scraped,
        lambda run, scraping: [
            ServerPlan(
                name,
                tuple(sock.fileno() for sock in bound[name]),
                workers[name],
                *_words(name, {}, {}, run, scraping),
                (scraped.fileno(),) if scraped is not None else (),
                silent=silent[name],
            )
            for name in sockets
        ],
        ready=f"ready issuers={len(usable)}{metrics}",
        file=str(directory.absolute()),
        fixed={},
        notes=tuple(str(note) for _, _, note in parts),
        several=True,
    )


def _take_over(
    settings: Settings,
    workers: Mapping[str, int],
    scraped: socket.socket | None,
    plans: Callable[[Path, Mapping[str, str]], Sequence[ServerPlan]],
    *,
    ready: str,
    file: str,
    fixed: Mapping[str, str],
    notes: tuple[str, ...],
    several: bool = False,
) -> NoReturn:
    """Become the supervisor of the servers that `plans` returns for the run's directory."""
    # Until the supervisor handles them: it removes the directory.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    # Last, so that a start that fails leaves no directory.
    run, lock = plan.begin(SYSTEM.now())
    SharedCounters.begin(run / _LEDGER)
    scraping: Mapping[str, str] = {}
    if scraped is not None:
        scraping = {METRICS: Scraping(scraped.fileno(), str(run), workers).text()}
    Plan(
        servers=tuple(plans(run, scraping)),
        ready=ready,
        file=file,
        folder=str(run),
        level=settings.log.level,
        style=settings.log.format,
        drain=settings.serving.drain,
        terminal=ends_with_terminal(),
        lock=lock,
        fixed=fixed,
        notes=notes,
        several=several,
    ).take_over()


def _ready_lines(
    settings: Settings, urls: Mapping[str, str], scraped: socket.socket | None
) -> Iterator[str]:
    """Yield what is printed when all servers are ready: a line for programs, pages for people."""
    listening = {**urls}
    if scraped is not None:
        listening["metrics"] = f"http://{_address(scraped)}/metrics"
    yield " ".join(["ready", *(f"{name}={url}" for name, url in listening.items())])
    pages: dict[str, str] = {}
    if auth_url := urls.get("authorization", "").rstrip("/"):
        pages["your account"] = f"{auth_url}/"
        pages["developers"] = f"{auth_url}/developer"
        pages["console"] = f"{auth_url}/admin"
        if documentation := base_of(settings.docs.url, auth_url):
            pages["documentation"] = documentation
    if api_url := urls.get("resource", "").rstrip("/"):
        pages["API reference"] = f"{api_url}/v2/"
    width = max(map(len, pages))
    yield from (f"  {name:<{width}}  {url}" for name, url in pages.items())


def _words(
    name: str,
    urls: Mapping[str, str],
    sockets: Mapping[str, Sequence[socket.socket]],
    run: Path,
    scraping: Mapping[str, str],
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the environment variables that a worker gets, and those it loses.

    The resource server gets no secret of the authorization server.
    """
    # The directory is this run's alone.
    variables: dict[str, str] = {**scraping, NODE: run.name}
    for other, url in urls.items():
        variables[f"VALETKEY__{other.upper()}__URL"] = url
        variables[f"VALETKEY__{other.upper()}__LISTEN"] = _address(sockets[other][0])
    if name != "resource":
        return variables, ()
    # A placeholder for each secret, because related settings may require one.
    masked = {
        setting.variable: "withheld"
        for setting in catalogue().values()
        if setting.rule.only_by_environment
        and setting.section not in {"resource", "metrics"}
        and setting.variable in environment()
    }
    return {**variables, **masked, VARIABLE: str(run / _LEDGER)}, _NOT_FOR_RESOURCE


def _scraped(settings: Settings) -> socket.socket | None:
    """Return the socket at which metrics are scraped; None if metrics are off."""
    if not settings.metrics.listen:
        return None
    monitoring_token(settings)
    host, _, port = settings.metrics.listen.rpartition(":")
    try:
        listening = bind(host.strip("[]"), int(port))
        listen(listening)
        return listening
    except OperatorError as error:
        advice = "stop what listens there, or choose another"
        raise OperatorError(f"{error.message}; {advice}", "metrics.listen") from None


def _activated() -> Sequence[socket.socket]:
    """Return the sockets that a service manager opened (sd_listen_fds(3))."""
    variables = environment()
    if variables.get("LISTEN_PID") != str(os.getpid()):
        return ()
    first = 3
    return [socket.socket(fileno=first + offset) for offset in range(int(variables["LISTEN_FDS"]))]


def _bound(
    name: str, server: ServerSettings, activated_sockets: Sequence[socket.socket]
) -> tuple[socket.socket, ...]:
    host, _, port = server.listen.rpartition(":")
    if ours := tuple(sock for sock in activated_sockets if _port(sock) == int(port)):
        return ours
    try:
        named = urlsplit(server.url).hostname or ""
        return bind_named(named, host.strip("[]"), int(port))
    except OperatorError as error:
        advice = "stop what listens there, or choose another"
        raise OperatorError(f"{error.message}; {advice}", f"{name}.listen") from None


def _url(server: ServerSettings, listening: socket.socket) -> str:
    """Return the configured URL, with port 0 replaced by the port that the system chose."""
    if urlsplit(server.url).port != 0:
        return server.url
    return f"{server.url.removesuffix('0')}{_port(listening)}"


def _address(listening: socket.socket) -> str:
    host = str(listening.getsockname()[0])
    return f"[{host}]:{_port(listening)}" if ":" in host else f"{host}:{_port(listening)}"


def _port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])
