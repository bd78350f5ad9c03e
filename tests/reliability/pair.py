"""Two nodes on one PostgreSQL behind nginx, under load."""

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.ports import free_port
from tests.deploy.nginx import running
from tests.documents.pages import blocks
from tests.reliability.load import Load, asking
from tests.reliability.nodes import DRAIN, Node, configure, register, stopped_in_the_end
from tests.support import postgres

_NGINX = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    {upstream}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://valetkey;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


def _upstream(listens: Sequence[str]) -> str:
    """The block of the guide, with these nodes, whose drain is shorter than the default."""
    (code,) = (
        block.code
        for block in blocks("docs/how-to/operate/restart.md")
        if block.language == "nginx"
    )
    guide = ("10.0.0.1:8400", "10.0.0.2:8400", "keepalive_timeout 4s")
    for text, here in zip(guide, (*listens, "keepalive_timeout 1s"), strict=True):
        assert text in code
        code = code.replace(text, here)
    return code


@contextmanager
def two_nodes(folder: Path) -> Generator[tuple[Sequence[Node], Load]]:
    """Both nodes run, and the load goes through nginx, until the block ends."""
    port = free_port()
    listens = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    nodes = [Node(folder / "first"), Node(folder / "second")]
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "nginx is missing"
    with postgres.database() as url:
        for node, listen in zip(nodes, listens, strict=True):
            node.drain = DRAIN
            configure(node.here, url=f"http://127.0.0.1:{port}", listen=listen, database=url)
        register(nodes[0].here)
        for name in ("valetkey.keyring", "authorization.last-seen"):
            with suppress(FileNotFoundError):
                shutil.copy2(nodes[0].here / name, nodes[1].here / name)
        prefix = folder / "nginx"
        prefix.mkdir()
        text = _NGINX.format(prefix=prefix, upstream=_upstream(listens), port=port)
        (prefix / "nginx.conf").write_text(text)
        with stopped_in_the_end(*nodes):
            for node in nodes:
                node.start()
            command = [program, "-p", str(prefix), "-c", str(prefix / "nginx.conf")]
            address = f"127.0.0.1:{port}"
            with running(command, port), asking(address, address) as load:
                yield nodes, load
            if load.failed:
                # Shown with the experiment that fails: why nginx could not pass on a request.
                sys.stderr.write((prefix / "error.log").read_text())
