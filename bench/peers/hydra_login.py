"""The login and consent app of Hydra: every Hydra needs one. Its CPU time is not counted.

`python -m bench.peers.hydra_login PORT ADMIN_PORT` answers for Ada. It accepts each request by the
admin API and remembers it. It reads only the consent request, because it has to grant its scope.
"""

import asyncio
import json
import subprocess
import sys
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

import uvloop

from bench.load import Line
from bench.ports import free_port
from bench.workloads import Place

_REQUESTS = "/admin/oauth2/auth/requests"
_REMEMBERED: Mapping[str, object] = {"remember": True, "remember_for": 0}


@contextmanager
def hydra_login(admin: Place) -> Generator[str]:
    """Run it in a process of its own for the Hydra with this admin API; its URL."""
    port = free_port()
    program = [sys.executable, "-m", "bench.peers.hydra_login", str(port), str(admin.port)]
    process = subprocess.Popen(program)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


async def _answer(reader: StreamReader, writer: StreamWriter, admin: Place) -> None:
    line = Line(admin.host, admin.port)
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            url = urlsplit(head.split(b" ", 2)[1].decode())
            target = await _accepted(line, admin, url.path, parse_qs(url.query))
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n".encode())
            writer.write(b"Content-Length: 0\r\n\r\n")
    except (IncompleteReadError, ConnectionError):
        writer.close()
    finally:
        line.close()


async def _accepted(line: Line, admin: Place, path: str, query: Mapping[str, list[str]]) -> str:
    """Accept what is asked; where the user goes next."""
    if path == "/login":
        name, accept = "login", {"subject": "ada"}
    else:
        name, accept = "consent", {}
    challenge = urlencode({f"{name}_challenge": query[f"{name}_challenge"][0]})
    if name == "consent":
        reply = await line.ask(admin.request("GET", f"{_REQUESTS}/consent?{challenge}"))
        accept = {"grant_scope": json.loads(reply.check().body)["requested_scope"]}
    body = json.dumps({**_REMEMBERED, **accept})
    put = admin.request(
        "PUT",
        f"{_REQUESTS}/{name}/accept?{challenge}",
        body,
        kind="application/json",
    )
    target: str = json.loads((await line.ask(put)).check().body)["redirect_to"]
    return target


async def _serve(port: int, admin: Place) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: _answer(reader, writer, admin), "127.0.0.1", port, backlog=512
    )
    await server.serve_forever()


def main() -> None:
    """Answer at the port that the command line names until SIGTERM."""
    uvloop.run(_serve(int(sys.argv[1]), Place("127.0.0.1", int(sys.argv[2]))))


if __name__ == "__main__":
    main()
