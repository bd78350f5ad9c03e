"""The processes that answer: what they do without until somebody needs it."""

import subprocess
import sys

import pytest

LARGE = {
    "aiosmtplib",
    "fido2",
    "jsonschema_rs",
    "prometheus_client",
    "psycopg",
    "segno",
    "structlog",
}


@pytest.mark.parametrize(
    ("server", "without"), [("authorization", LARGE | {"httpx2"}), ("resource", LARGE | {"jinja2"})]
)
def test_it_starts_without_what_many_servers_never_need(server: str, without: set[str]) -> None:
    program = f"import sys, valetkey.cli.serving.{server}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert without.isdisjoint(name.partition(".")[0] for name in done.stdout.split())
