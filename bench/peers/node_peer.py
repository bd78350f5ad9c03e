"""npm oidc-provider, with its memory adapter or with Redis."""

import os
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPMessage
from http.cookiejar import CookieJar
from itertools import product
from pathlib import Path
from typing import IO
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, Request, build_opener

from bench.peers.install import HERE, node, node_packages, node_version
from bench.peers.peer import PUBLIC, Paths, Peer, first_answer
from bench.ports import free_port
from bench.workloads import Place
from valetkey.kernel.replace import replace

_API = "https://api.example"
_PATHS = Paths(
    token="/token",
    machine_token="/token",
    authorize="/auth",
    introspection="/token/introspection",
    userinfo="/me",
    keys="/jwks",
    discovery="/.well-known/openid-configuration",
)


class _StayHere(HTTPRedirectHandler):
    """A browser that does not visit the app."""

    def http_error_303(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> object:
        """Follow what stays on loopback; hand out the answer that leads away."""
        if headers["location"].startswith("https://app.example"):
            return fp
        return super().http_error_303(req, fp, code, msg, headers)


def redis_is_there() -> bool:
    """Whether this machine has Redis; fetched from the distribution where we may install."""
    if shutil.which("redis-server") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("redis-server is installed from the distribution, for the peer that keeps in it")
        install = ["apt-get", "install", "-y", "--no-install-recommends", "redis-server"]
        subprocess.run(install, check=False, capture_output=True)
    return shutil.which("redis-server") is not None


def _redis() -> str:
    says = ["redis-server", "--version"]
    output = subprocess.run(says, check=True, capture_output=True, text=True).stdout
    return f"Redis {output.partition('v=')[2].split()[0]}"


@contextmanager
def oidc_provider(directory: Path, *, redis: str = "") -> Generator[Peer]:
    """It, in one process. `redis` is "" for memory, or how Redis keeps: "everysec", "always"."""
    folder = node_packages("oidc-provider", "ioredis")
    shutil.copy(HERE / "oidc_provider.mjs", folder)
    port = free_port()
    programs: list[subprocess.Popen[bytes]] = []
    arguments = [str(node()), "oidc_provider.mjs", str(port)]
    if redis:
        at = free_port()
        keeps = ["--appendonly", "yes", "--appendfsync", redis, "--save", "", "--dir", directory]
        listens = ["redis-server", "--port", str(at), "--bind", "127.0.0.1", *map(str, keeps)]
        programs.append(subprocess.Popen(listens, stdout=subprocess.DEVNULL))
        arguments.append(f"redis://127.0.0.1:{at}")
    environment = {"NODE_ENV": "production", "PATH": "/usr/bin:/bin"}
    began = time.monotonic()
    process = subprocess.Popen(
        arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    programs.append(process)
    try:
        assert process.stdout is not None
        while b"ready" not in (line := process.stdout.readline()):
            assert line, "oidc-provider did not start"
        url = f"http://127.0.0.1:{port}"
        started = first_answer(Place.of(url), _PATHS.discovery, began)
        jar = CookieJar()
        browser = build_opener(HTTPCookieProcessor(jar), _StayHere())
        query = "redirect_uri=https%3A%2F%2Fapp.example%2Fcb&response_type=code"
        for app, scope in product((PUBLIC, "phone-rs256"), ("openid", "openid notes:read")):
            challenge = "code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
            query_string = f"{query}&client_id={app}&scope={scope.replace(' ', '%20')}&{challenge}"
            query_string += f"&code_challenge_method=S256&resource={_API}"
            with browser.open(f"{url}/auth?{query_string}") as answer:
                assert "code=" in answer.headers["location"]
        peer = Peer(
            f"oidc-provider, {f'Redis {redis}' if redis else 'memory'}",
            Place.of(url),
            _PATHS,
            lambda: [program.pid for program in programs],
            node_version("oidc-provider") + (f", {_redis()}" if redis else ""),
            {"jwt": {"client_id": "service", "resource": _API},
             "reference": {"client_id": "reference"}},
            {cookie.name: cookie.value or "" for cookie in jar if cookie.path == "/"},
            {"resource": _API},
            posts_secret=True,
            started=started,
            databases=lambda: [program.pid for program in programs[:-1]],
        )  # fmt: skip
        yield replace(peer, by_rs256=replace(peer, public="phone-rs256", signs="RS256"))
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait(20)
        if process.stdout is not None:
            process.stdout.close()
