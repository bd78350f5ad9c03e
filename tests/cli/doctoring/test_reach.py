"""What `valetkey doctor` finds by requests through the public URL."""

import os
import shutil
from pathlib import Path

from tests.cli.running import valetkey
from tests.deploy.nginx import free_port, running
from tests.reliability.nodes import Node, configure, stopped_in_the_end

_NGINX = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log crit;
events {{ worker_connections 64; }}
http {{
    access_log {prefix}/access.log;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host another.example;
        }}
        location /oauth/ {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


def test_proxy_that_logs_queries_and_forwards_another_host_is_found(tmp_path: Path) -> None:
    port, behind = free_port(), free_port()
    url, listen = f"http://127.0.0.1:{port}", f"127.0.0.1:{behind}"
    node = Node(tmp_path / "node")
    configure(node.here, url=url, listen=listen, database="sqlite:///a/auth.db")
    prefix = tmp_path / "nginx"
    prefix.mkdir()
    file = prefix / "nginx.conf"
    file.write_text(_NGINX.format(prefix=prefix, port=port, behind=behind))
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "nginx is missing"
    with stopped_in_the_end(node):
        node.start()
        with running([program, "-p", str(prefix), "-c", str(file)], port):
            ran = valetkey("doctor", "--logs", str(prefix), "--json", here=node.here)
    assert ran.code == 1
    found = {each["about"]: each for each in ran.json["findings"] if each["level"] == "bad"}
    assert "another Host" in found["authorization proxy"]["found"]
    assert "proxy_set_header Host $host" in found["authorization proxy"]["next"]
    assert str(prefix / "access.log") in found["canary"]["found"]
    assert "run-behind-a-proxy" in found["canary"]["page"]
