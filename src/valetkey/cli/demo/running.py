"""Run the demo: both servers as `valetkey serve` runs them, the apps, and example data.

Addresses are the usual ones if they are free, else what the system gives.
"""

import contextlib
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from http.server import HTTPServer
from itertools import chain
from pathlib import Path
from typing import TypeVar, cast

from valetkey.cli import interrupts
from valetkey.cli.demo.notes_printer import NotesPrinter
from valetkey.cli.demo.site import (
    DESK,
    PASSWORD,
    PRINTER,
    USERNAME,
    CalendarApi,
    DemoSite,
    known_secrets,
    prepare_demo,
)
from valetkey.cli.demo.wire import ShownExchange, TracedHttp, Unanswered, basic, bearer
from valetkey.cli.say import Exit
from valetkey.cli.serving import recheck
from valetkey.cli.serving.parent import start_check
from valetkey.cli.serving.supervise import (
    STOPS,
    ServerProcesses,
    Supervisor,
    collect_orphans,
    ends_with_terminal,
)
from valetkey.config.environment import environment
from valetkey.kernel.refusal import OperatorError
from valetkey.web import log
from valetkey.web.connection.bind import bind_named, listen

_HOST = "127.0.0.1"
# Passkeys need a host name; the app is on another host, as in production.
_NAMES = {"authorization": "localhost", "resource": _HOST}
_USUAL = {"authorization": 8400, "resource": 8401}
_USUAL_APP, _USUAL_CALENDAR = 8402, 8403
_OURS = "VALETKEY"

_Listener = TypeVar("_Listener", bound=HTTPServer)


class Stopped(Exception):
    """The user interrupted the demo."""


@dataclass(frozen=True, slots=True)
class Running:
    """A demo whose servers respond; `stopping` is set when they no longer do."""

    site: DemoSite
    stopping: threading.Event


Work = Callable[[Running], int]
"""The part of the demo that runs once everything responds; returns the exit code."""


def run(keep: Path | None, work: Work, progress: Callable[[str], object]) -> int:
    """Start everything in `keep` or a temporary folder, run `work`, stop everything.

    `progress` is told what takes a while. Returns the exit code of `work`, 130 if it was
    interrupted, or that of a server that did not start. Raises OperatorError for an unusable
    folder, and what `work` raises.
    """
    # Held back where an exception would leave a folder or a process behind.
    with interrupts.held_back(), _folder(keep) as directory, contextlib.ExitStack() as stack:
        secrets = known_secrets(directory)
        sockets = {name: _bound(_NAMES[name], port) for name, port in _USUAL.items()}
        for sock in chain.from_iterable(sockets.values()):
            stack.enter_context(sock)
        urls = {
            name: f"http://{_NAMES[name]}:{_port(listening[0])}"
            for name, listening in sockets.items()
        }
        auth_url, api_url = urls["authorization"], urls["resource"]
        app = stack.enter_context(
            _listener(
                lambda at: NotesPrinter(at, auth_url, api_url, PRINTER, secrets[PRINTER]),
                _USUAL_APP,
            )
        )
        calendar = stack.enter_context(
            _listener(lambda at: CalendarApi(at, auth_url), _USUAL_CALENDAR)
        )
        site = DemoSite(directory, auth_url, api_url, app.url, calendar.identifier, secrets)
        progress("Creating databases, keys, users and apps …")
        with interrupts.delivered():
            prepare_demo(site)
        progress("Starting two servers, an app and a second API …")
        log.set_up("error")
        servers = [_server(name, site, sock) for name, sock in sockets.items()]
        with _answering(app), _answering(calendar):
            return _supervised(site, servers, work)


def _supervised(site: DemoSite, servers: list[ServerProcesses], work: Work) -> int:
    running = Running(site, threading.Event())
    codes: list[int] = []
    failures: list[BaseException] = []

    def do() -> None:
        try:
            codes.append(work(running))
        except (Stopped, Unanswered) as failure:
            if running.stopping.is_set():
                codes.append(Exit.INTERRUPTED)
            else:
                failures.append(failure)
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(failure)
        finally:
            stop()

    def stop(*_: object) -> None:
        supervisor.stop(signal.SIGINT)

    working = threading.Thread(target=do, name="demo")

    def begin() -> None:
        # SIGINT and SIGTERM alike end the demo without draining.
        interrupts.handle(stop, STOPS)
        working.start()

    configuration = str(site.configuration.absolute())
    before = recheck.fixed(site.settings, tuple(_NAMES))
    supervisor = Supervisor(
        servers,
        begin,
        on_stop=running.stopping.set,
        level="error",
        # A changed setting replaces the workers, as under `valetkey serve`.
        recheck=lambda: start_check(configuration, before, _variables()),
        terminal=ends_with_terminal(),
    )
    interrupts.handle(stop)
    collect_orphans()
    with interrupts.delivered():
        code = supervisor.run()
    if working.ident is not None:
        working.join()
    if failures:
        raise failures[0]
    return code or (codes[0] if codes else Exit.INTERRUPTED)


def _server(name: str, site: DemoSite, listening: Sequence[socket.socket]) -> ServerProcesses:
    module = f"valetkey.cli.serving.{name}"
    command = (sys.executable, "-P", "-m", module, str(site.configuration.absolute()))
    return ServerProcesses(name, command, [sock.detach() for sock in listening], 1, _variables())


def _variables() -> Mapping[str, str]:
    """Return the environment of the servers, without settings of this process."""
    return {key: value for key, value in environment().items() if not key.startswith(_OURS)}


@contextlib.contextmanager
def _folder(keep: Path | None) -> Generator[Path]:
    if keep is not None:
        yield keep
        return
    directory = Path(tempfile.mkdtemp(prefix="valetkey-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _answering(app: HTTPServer) -> Generator[None]:
    thread = threading.Thread(target=app.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        app.shutdown()
        thread.join()


def _bound(name: str, port: int) -> tuple[socket.socket, ...]:
    try:
        return _listening(name, port)
    except OperatorError:
        return _listening(name, 0)


def _listening(name: str, port: int) -> tuple[socket.socket, ...]:
    sockets = bind_named(name, _HOST, port)
    # Bound at once, so that a demo that starts at the same time chooses other ports.
    for sock in sockets:
        listen(sock)
    return sockets


def _listener(make: Callable[[tuple[str, int]], _Listener], usual: int) -> _Listener:
    try:
        return make((_HOST, usual))
    except OSError:
        return make((_HOST, 0))


def _port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


_NOTES = (
    (
        "Lisbon, 12 to 16 May",
        "Flights and hotel are booked.\n\nStill to do: tram tickets, a table for Friday evening.",
    ),
    (
        "Reading club",
        "Thursday at 19:00 in the library.\nNext book: The Left Hand of Darkness, up to chapter 7.",
    ),
    (
        "Shopping list",
        "Coffee, rice, lemons, olive oil.\nPaper for the printer.",
    ),
)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The number of Ada's notes, and an access token that can read and write them."""

    count: int
    token: str


def seed(site: DemoSite) -> Seeded:
    """Create the notes, unless there are some. Raises Unanswered if a server does not respond."""
    wire = TracedHttp(lambda _: None)
    form = {
        "grant_type": "password",
        "username": USERNAME,
        "password": PASSWORD,
        "scope": "read write",
    }
    header = basic(DESK, site.secret(DESK))
    answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
    token = answer.text("access_token")
    url = f"{site.api_url}/v2/notes"
    listed = _good(wire.send("GET", url, headers=bearer(token)), 200)
    count = len(cast("list[object]", listed.json.get("items", [])))
    if count:
        return Seeded(count, token)
    _fail(site, wire)
    for title, text in _NOTES:
        document = {"title": title, "text": text}
        _good(wire.send("POST", url, document=document, headers=bearer(token)), 201)
    return Seeded(len(_NOTES), token)


def _fail(site: DemoSite, wire: TracedHttp) -> None:
    """Send two invalid requests as Notes Printer, for the list of failed requests."""
    parameters = {
        "response_type": "code",
        "client_id": PRINTER,
        "redirect_uri": f"{site.callback}/",
        "scope": "notes:read",
    }
    wire.send("GET", f"{site.auth_url}/oauth/authorize", query=parameters)
    form = {
        "grant_type": "authorization_code",
        "code": "an-old-code",
        "redirect_uri": site.callback,
    }
    header = basic(PRINTER, site.secret(PRINTER))
    wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)


def _good(answer: ShownExchange, status: int) -> ShownExchange:
    if answer.status != status:
        raise Unanswered(f"{answer.method} {answer.url} was answered with {answer.status}")
    return answer
