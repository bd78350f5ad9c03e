"""A constant on the same stack as the API: our listener, router and log, and nothing behind them.

`python -m bench.constant` reads from standard input the address, the path, the header fields and
the body, says `ready`, and answers until SIGTERM. It is what a declared object is measured against.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

from bench.processes import ended_together
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.runtime import SYSTEM
from valetkey.web import listen, log
from valetkey.web.connection.bind import bind
from valetkey.web.exchange import Request, Response
from valetkey.web.router import Route, RoutedApp

# What the App adds by itself; the rest is the endpoint's.
_ADDED = frozenset(
    (
        "content-length",
        "content-security-policy",
        "cross-origin-opener-policy",
        "cross-origin-resource-policy",
        "date",
        "permissions-policy",
        "referrer-policy",
        "x-content-type-options",
        "x-frame-options",
    )
)


@contextmanager
def start(url: str, path: str, head: bytes, body: bytes) -> Generator[int]:
    """A process that answers `path` at `url` with this; gives its id."""
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
    pairs = [(name, value) for name, _, value in lines if name not in _ADDED]
    configuration = {"url": url, "path": path, "pairs": pairs, "body": body.decode()}
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.constant"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(configuration))
            process.stdin.close()
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


def _app(host: str, path: str, response: Response) -> RoutedApp:
    def refuse(request: Request, refusal: Refusal) -> Response:
        return Response(404)

    async def answer(request: Request) -> Response:
        return response

    return RoutedApp(
        [Route(path, {"GET": answer}, refuse)], runtime=SYSTEM, refuse=refuse, hosts={host}
    )


def main() -> None:
    configuration = json.load(sys.stdin)
    pairs: Sequence[tuple[str, str]] = [tuple(pair) for pair in configuration["pairs"]]
    response = Response(200, configuration["body"].encode(), tuple(pairs))
    parts = urlsplit(configuration["url"])
    assert parts.hostname is not None
    assert parts.port is not None
    log.set_up("info", "json")
    app = _app(parts.netloc, configuration["path"], response)
    sockets = [bind(parts.hostname, parts.port)]
    listen.run(listen.serve(app, sockets=sockets, on_ready=lambda: print("ready", flush=True)))


if __name__ == "__main__":
    with ended_together():
        main()
