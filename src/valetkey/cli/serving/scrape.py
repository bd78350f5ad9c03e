"""Metrics over HTTP: any worker answers a scrape and collects the metrics of all others.

The listener is shared by all workers of both servers, so that a worker that hangs or restarts does
not make the metrics unavailable. Each worker reports its metrics on a Unix socket in the
supervisor's directory. Both run on threads of their own: a scrape is answered even while the event
loop is stuck or the database is unavailable.
"""

import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from selectors import EVENT_READ, DefaultSelector

import msgspec

from valetkey.cli.serving.exposition import Worker, expose
from valetkey.cli.serving.plan import Scraping
from valetkey.cli.serving.vitals import open_descriptors
from valetkey.config.agreement import is_loopback
from valetkey.kernel import metrics
from valetkey.kernel.metrics import Sample, Snapshot
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import same
from valetkey.web import log

_PATIENCE = 0.8  # seconds for the other workers' metrics, so that a scrape takes less than one
_REQUEST_WITHIN = 2.0  # seconds for a scraper to send its request
_RESPONSE_WITHIN = 2.0  # seconds for a scraper to receive the response
_REQUEST_BYTES = 8 * 1024
_LOOK_EVERY = 0.5
_AT_ONCE = 16
"""Connections that a worker answers at once; further ones wait, each for at most four seconds."""

_MEASURING = threading.Lock()
_PIECE = 256 * 1024


def begin(scraping: Scraping, token: str) -> None:
    """Start answering scrapes, for as long as this process lives.

    Raises OperatorError if other machines could scrape without a token.
    """
    scraped = socket.socket(fileno=scraping.descriptor)
    # The socket is that of the start: since then a reload may have changed `metrics.listen`.
    if not token and not is_loopback(str(scraped.getsockname()[0])):
        message = "metrics are served to other machines until a restart, which needs a token"
        raise OperatorError(message, "metrics.bearer_token")
    metrics.BUILD.set(1, version("valetkey"), python_version())
    metrics.STARTED.set(SYSTEM.now())

    def scrape(caller: socket.socket) -> None:
        _scrape(caller, scraping, token)

    _on_thread("metrics-scrape", scraped, scrape)


def report(scraping: Scraping, server: str, worker: int) -> None:
    """Report this process's metrics as those of the worker, in place of its previous process.

    Call it once the worker is ready: the previous process serves until then.
    """
    fresh = Path(scraping.folder, f"{server}-{worker}.{os.getpid()}")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(fresh))
    listening.listen(16)
    fresh.replace(_address(scraping, server, worker))
    _on_thread("metrics-tell", listening, _send_metrics)


def _address(scraping: Scraping, server: str, worker: int) -> Path:
    return Path(scraping.folder, f"{server}-{worker}.metrics")


def _on_thread(
    name: str, listening: socket.socket, answer: Callable[[socket.socket], None]
) -> None:
    threading.Thread(target=_serve, args=(listening, answer), name=name, daemon=True).start()


def _serve(listening: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    free = threading.BoundedSemaphore(_AT_ONCE)
    with DefaultSelector() as selector:
        selector.register(listening, EVENT_READ)
        while True:
            selector.select()
            try:
                # Another worker may have accepted it first.
                caller, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as failure:
                # Out of descriptors, for example: retrying at once would only use up CPU time.
                log.throttled("error", "metrics.failed", failure.strerror or type(failure).__name__)
                time.sleep(_LOOK_EVERY)
                continue
            work = threading.Thread(target=_answer, args=(caller, answer, free), daemon=True)
            free.acquire()
            try:
                work.start()
            except RuntimeError as failure:
                log.throttled("error", "metrics.failed", f"no thread: {failure}")
                free.release()
                caller.close()


def _answer(
    caller: socket.socket, answer: Callable[[socket.socket], None], free: threading.Semaphore
) -> None:
    with caller:
        try:
            caller.settimeout(_REQUEST_WITHIN)
            answer(caller)
        except OSError:
            pass  # The scraper left, or was too slow.
        except Exception as failure:  # noqa: BLE001 - a fault of one scrape
            log.error("metrics.failed", failure)
        finally:
            free.release()


def _send_metrics(caller: socket.socket) -> None:
    # CPU time is added as the difference to what was counted.
    with _MEASURING:
        _measure_process()
        told = msgspec.json.encode(metrics.snapshot())
    caller.sendall(told)


def _scrape(caller: socket.socket, scraping: Scraping, token: str) -> None:
    asked, fields = _read(caller)
    method, _, rest = asked.partition(" ")
    status, body, media_type = HTTPStatus.OK, b"", "text/plain; charset=utf-8"
    scheme, _, shown = fields.get("authorization", "").partition(" ")
    if token and not (scheme.lower() == "bearer" and same(shown.strip(), token)):
        status = HTTPStatus.UNAUTHORIZED
    elif rest.partition(" ")[0].partition("?")[0] != "/metrics":
        status = HTTPStatus.NOT_FOUND
    elif method != "GET":
        status = HTTPStatus.METHOD_NOT_ALLOWED
    else:
        body, media_type = expose(_ask(scraping), fields.get("accept", ""))
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if status is HTTPStatus.UNAUTHORIZED:
        head.append("WWW-Authenticate: Bearer")
    # Reading left only the rest of its own time.
    caller.settimeout(_RESPONSE_WITHIN)
    caller.sendall("\r\n".join([*head, "", ""]).encode() + body)


def _read(caller: socket.socket) -> tuple[str, Mapping[str, str]]:
    """Return the request line and the fields; raises OSError if they are too slow or too large."""
    deadline, said = time.monotonic() + _REQUEST_WITHIN, b""
    while b"\r\n\r\n" not in said:
        caller.settimeout(max(0.001, deadline - time.monotonic()))
        piece = caller.recv(_REQUEST_BYTES)
        said += piece
        if not piece or len(said) > _REQUEST_BYTES:
            raise ConnectionAbortedError
    top, *lines = said.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    return top, {name.strip().lower(): value.strip() for name, _, value in fields}


def _ask(scraping: Scraping) -> Mapping[Worker, Snapshot | None]:
    """Return the metrics of every worker, this one included; None for one that was too slow."""
    places = [(server, n) for server, many in scraping.workers.items() for n in range(many)]
    found: dict[Worker, Snapshot | None] = dict.fromkeys(places)
    heard: dict[Worker, bytes] = {}
    deadline = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack, DefaultSelector() as selector:
        for server, number in places:
            asked = stack.enter_context(socket.socket(socket.AF_UNIX))
            asked.setblocking(False)
            with contextlib.suppress(OSError):
                asked.connect(str(_address(scraping, server, number)))
                selector.register(asked, EVENT_READ, ((server, number), asked))
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                worker, asked = key.data
                try:
                    piece = asked.recv(_PIECE)
                except OSError:
                    selector.unregister(asked)
                    continue
                heard[worker] = heard.get(worker, b"") + piece
                if not piece:
                    selector.unregister(asked)
                    with contextlib.suppress(msgspec.DecodeError):
                        found[worker] = msgspec.json.decode(
                            heard[worker], type=dict[str, list[Sample]]
                        )
    return found


def _measure_process() -> None:
    used = time.process_time()
    metrics.CPU.add(amount=used - sum(number for _, (number,) in metrics.CPU.samples()))
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        metrics.MEMORY.set(pages * resource.getpagesize())
        metrics.DESCRIPTORS.set(open_descriptors())
    metrics.DESCRIPTORS_LIMIT.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
