"""No request hides in another, with nginx, Caddy, Envoy or HAProxy in front, or with nothing.

After each attack others use the proxy, which may send their requests on the connection that the
attacker's went by. Each must get its own answer, and our application must have been asked nothing
that the proxy did not ask on purpose, which it shows by handing on the answer.
"""

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bench.ports import free_port
from tests.deploy.nginx import running
from tests.deploy.smuggling import corpus
from tests.support.wait import CEILING
from tests.web import RUNTIME, exchange_bytes, refuse, statuses
from valetkey.web.connection.gate import Limits
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.listen import RunningServer
from valetkey.web.router import Body, Route, RoutedApp

_SILENCE = 0.03
"""Seconds after which an attacker goes on; what comes later still counts."""
_LATE = 2.0
"""Seconds that the answer to a request which reached the application may take."""
_HANDED_ON = b'"asked":"/smuggled'
_LIMITS = Limits(connections_per_address=2_000)


class _Application:
    """Answers with the target that was asked for, and remembers all."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        route = Route("/{+rest}", dict.fromkeys(("GET", "POST"), self._answer), refuse, Body.ANY)
        self.app = RoutedApp([route], runtime=RUNTIME, refuse=refuse, hosts=("h.example",))

    async def _answer(self, request: Request) -> Response:
        self.asked.append(request.path)
        return json_response({"asked": f"{request.path}?{request.query}"})


def _nginx(program: str, folder: Path, port: int, behind: int) -> Sequence[str]:
    file = folder / "nginx.conf"
    temporary = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file.write_text(f"""
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 256; }}
http {{
    access_log off; {temporary}
    upstream valetkey {{ server 127.0.0.1:{behind}; keepalive 1; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://valetkey; proxy_http_version 1.1;
            proxy_set_header Host $host; proxy_set_header Connection "";
        }}
    }}
}}""")
    return (program, "-p", str(folder), "-c", str(file))


def _caddy(program: str, folder: Path, port: int, behind: int) -> Sequence[str]:
    file = folder / "Caddyfile"
    file.write_text(f"""{{
	admin off
	auto_https off
	storage file_system {folder}/caddy
}}
:{port} {{
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:{behind}
}}
""")
    command = ("run", "--config", str(file), "--adapter", "caddyfile")
    return ("env", f"HOME={folder}", program, *command)


def _envoy(program: str, folder: Path, port: int, behind: int) -> Sequence[str]:
    manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"

    def address(number: int) -> object:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    endpoint = {"endpoint": {"address": address(behind)}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": "valetkey"}}
    http = {
        "@type": f"{manager}.HttpConnectionManager",
        "stat_prefix": "in",
        "http_filters": [{"name": "router", "typed_config": {"@type": router}}],
        "route_config": {"virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [route]}]},
    }
    filters = [{"filters": [{"name": "http", "typed_config": http}]}]
    cluster = {
        "name": "valetkey",
        "load_assignment": {"cluster_name": "a", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    listener = {"address": address(port), "filter_chains": filters}
    file = folder / "envoy.json"
    resources = {"listeners": [listener], "clusters": [cluster]}
    file.write_text(json.dumps({"static_resources": resources}))
    alone = ("--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn")
    return (program, "-c", str(file), *alone)


def _haproxy(program: str, folder: Path, port: int, behind: int) -> Sequence[str]:
    file = folder / "haproxy.cfg"
    file.write_text(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    http-reuse always
frontend in
    bind 127.0.0.1:{port}
    default_backend valetkey
backend valetkey
    server valetkey 127.0.0.1:{behind}
""")
    return (program, "-db", "-f", str(file))


def _get(port: int, target: str) -> bytes:
    lines = f"GET {target} HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n"
    return exchange_bytes(port, lines.encode())


def _attack(port: int, sent: bytes) -> tuple[socket.socket, bytes]:
    # What it hears at once; the connection stays, as an attacker would leave it.
    connection = socket.create_connection(("127.0.0.1", port), timeout=CEILING)
    heard = b""
    with suppress(OSError):
        connection.sendall(sent)
        connection.settimeout(_SILENCE)
        while piece := connection.recv(65_536):
            heard += piece
    return connection, heard


def _heard_later(connection: socket.socket, heard: bytes, answers: int) -> bytes:
    """Return what the attacker heard, with so many answers of the application if they come."""
    connection.settimeout(_LATE)
    with suppress(OSError):
        while heard.count(_HANDED_ON) < answers and (piece := connection.recv(65_536)):
            heard += piece
    return heard


def _hidden(port: int, application: _Application) -> Sequence[object]:
    # What went wrong, with the name of the attack.
    wrong: list[object] = []
    for number, (name, sent) in enumerate(corpus().items()):
        application.asked.clear()
        connection, heard = _attack(port, sent)
        with connection:
            for victim in range(2):
                target = f"/victim?{number}.{victim}"
                answer = _get(port, target)
                if statuses(answer) != [200] or target.encode() not in answer:
                    wrong.append((name, "victim", answer[-300:]))
            smuggled = application.asked.count("/smuggled")
            heard = _heard_later(connection, heard, smuggled)
        if smuggled > heard.count(_HANDED_ON):
            wrong.append((name, "smuggled", heard[-300:]))
        if application.asked.count("/victim") != 2:
            wrong.append((name, "asked", list(application.asked)))
    return wrong


def _hidden_behind(
    folder: Path, command: Callable[[str, Path, int, int], Sequence[str]], program: str
) -> Sequence[object]:
    application, port = _Application(), free_port()
    with (
        RunningServer(application.app, limits=_LIMITS) as server,
        running(command(program, folder, port, server.port), port, folder / "log"),
    ):
        return _hidden(port, application)


def test_request_smuggling_fails() -> None:
    application = _Application()
    with RunningServer(application.app, limits=_LIMITS) as server:
        assert not _hidden(server.port, application)


def test_request_smuggling_fails_behind_nginx(nginx: str, tmp_path: Path) -> None:
    assert not _hidden_behind(tmp_path, _nginx, nginx)


def test_request_smuggling_fails_behind_caddy(caddy: str, tmp_path: Path) -> None:
    assert not _hidden_behind(tmp_path, _caddy, caddy)


def test_request_smuggling_fails_behind_envoy(envoy: str, tmp_path: Path) -> None:
    assert not _hidden_behind(tmp_path, _envoy, envoy)


def test_request_smuggling_fails_behind_haproxy(haproxy: str, tmp_path: Path) -> None:
    assert not _hidden_behind(tmp_path, _haproxy, haproxy)
