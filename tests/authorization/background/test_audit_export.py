"""The audit log reaches files, syslog servers and HTTP servers: all of it, in order."""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from bench.ports import free_port
from tests.authorization.storage.administration.test_audit_chain import KEY, Log, tell
from tests.documents.pages import blocks
from tests.sdk.certificate import self_signed
from tests.support.wait import until
from valetkey.authorization.background.audit import (
    AuditExport,
    AuditFile,
    AuditLine,
    Deliver,
    NotExported,
    destination,
)
from valetkey.authorization.model.event.chain import Checkpoint
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret

# RFC 5424 section 6: PRI, VERSION, TIMESTAMP, HOSTNAME, APP-NAME, PROCID, MSGID, no SD, BOM, MSG.
_MESSAGE = re.compile(
    rb"<(?P<pri>[0-9]{1,3})>1 (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (?P<host>[!-~]{1,255})"
    rb" (?P<app>[!-~]{1,48}) - (?P<id>[!-~]{1,32}) - \xef\xbb\xbf(?P<message>.*)",
    re.DOTALL,
)


def _messages(stream: bytes) -> list[dict[str, Any]]:
    """The frames of RFC 5425: a length, a space, a message; nothing else."""
    messages = []
    while stream:
        length, _, rest = stream.partition(b" ")
        assert re.fullmatch(rb"[1-9][0-9]*", length)
        message = _MESSAGE.fullmatch(rest[: int(length)])
        assert message is not None
        assert message["pri"] == b"110"
        content = json.loads(message["message"])
        assert message["id"].decode() == content["name"]
        at = datetime.fromtimestamp(content["at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert message["at"].decode() == at
        messages.append(content)
        stream = rest[int(length) :]
    return messages


@contextmanager
def _syslog_server(folder: Path, received: list[bytes]) -> Generator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(folder))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                with (
                    suppress(ssl.SSLError),
                    plain,
                    context.wrap_socket(plain, server_side=True) as connection,
                ):
                    while piece := connection.recv(65536):
                        received.append(piece)
                    # The end was read: close_notify is answered.
                    connection.unwrap()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"syslog+tls://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def _collector(statuses: Sequence[int], received: list[tuple[str, bytes]]) -> Generator[str]:
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.headers["content-type"] == "application/x-ndjson"
            received.append((self.headers["authorization"], body))
            self.send_response(left.pop(0) if left else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/audit"
    server.shutdown()
    thread.join()
    server.server_close()


def _deliver(url: str, folder: Path) -> Deliver:
    ca_file = folder / "issuer.pem"
    http = OutboundHttp(
        (ip_network("127.0.0.0/8"),),
        SYSTEM.now,
        ca_file=ca_file if ca_file.exists() else None,
    )
    http.prepare()
    return destination(url, folder, http, Secret("the-token"))


def _export(log: Log, deliver: Deliver, name: str = "there") -> AuditExport:
    return AuditExport(
        log.store, name, deliver, KEY.public, Runtime(lambda: log.now, SYSTEM.random)
    )


async def _all(export: AuditExport) -> None:
    while await export.export_next():
        pass


def _check(lines: Sequence[dict[str, Any]], ids: Sequence[str]) -> None:
    """Every event once, in the order of the chain, and behind each block its checkpoint."""
    assert [line["id"] for line in lines if "id" in line] == list(ids)
    assert lines[0]["done_by"] == "cli test"
    assert lines[0]["data"] == {"uid": 1, "fields": ["name"]}
    checkpoints = [line for line in lines if line["name"] == "audit.checkpoint"]
    assert checkpoints
    for line in checkpoints:
        line.pop("name")
        assert Checkpoint(**line).is_signed(KEY.public)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return str(request.getfixturevalue("postgres_url"))


def test_file_has_every_event_once_though_two_processes_export(
    database: str, tmp_path: Path
) -> None:
    async def story(log: Log) -> None:
        await log.write(300)
        await log.chain(after=0)
        log.now = Instant(log.now + 1)
        await log.write(5)
        await log.chain()
        await log.chain(after=4_000)  # a block without events is not exported
        deliver = _deliver("file:audit.jsonl", tmp_path)
        await asyncio.gather(*(_all(_export(log, deliver)) for _ in range(3)))
        lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        _check(lines, await log.ids())

    tell(database, story)


def test_export_of_a_dead_process_is_taken_over_after_its_lease(tmp_path: Path) -> None:
    async def story(log: Log) -> None:
        await log.write(1)
        await log.chain()
        delivered: list[int] = []

        async def dies(lines: Sequence[AuditLine]) -> None:
            raise asyncio.CancelledError

        async def works(lines: Sequence[AuditLine]) -> None:
            delivered.append(len(lines))

        with pytest.raises(asyncio.CancelledError):
            await _export(log, dies).export_next()
        second = _export(log, works)
        assert not await second.export_next()
        log.now = Instant(log.now + 120)
        await _all(second)
        assert delivered == [2]

    tell(f"sqlite:///{tmp_path}/a.db", story)


def test_syslog_server_reads_valid_messages_over_tls(tmp_path: Path) -> None:
    received: list[bytes] = []

    async def story(log: Log) -> None:
        await log.write(20)
        await log.chain()
        with _syslog_server(tmp_path, received) as url:
            await _all(_export(log, _deliver(url, tmp_path)))
        _check(_messages(b"".join(received)), await log.ids())
        # A server that is gone, and one that nobody trusts.
        await log.write(1)
        await log.chain()
        with pytest.raises(NotExported):
            await _export(log, _deliver(url, tmp_path), "other").export_next()
        (tmp_path / "issuer.pem").unlink()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        with _syslog_server(elsewhere, []) as url, pytest.raises(NotExported):
            await _deliver(url, tmp_path)([AuditLine(1, "x", {})])

    tell(f"sqlite:///{tmp_path}/a.db", story)


def test_refused_batch_is_sent_again_with_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valetkey.authorization.background.audit._LOOK_EVERY", 0.001)
    received: list[tuple[str, bytes]] = []

    async def story(log: Log) -> None:
        await log.write(3)
        await log.chain()
        with _collector([500, 302, 429], received) as url:
            task = asyncio.create_task(_export(log, _deliver(url, tmp_path)).run())
            while len(received) < 4:  # noqa: ASYNC110 - another thread appends
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert {token for token, _ in received} == {"Bearer the-token"}
        assert len({body for _, body in received}) == 1
        _check([json.loads(line) for line in received[-1][1].splitlines()], await log.ids())

    tell(f"sqlite:///{tmp_path}/a.db", story)


def test_full_disk_leaves_no_half_line() -> None:
    with pytest.raises(NotExported, match="No space left"):
        asyncio.run(AuditFile(Path("/dev/full")).deliver([AuditLine(1, "x", {"name": "x"})]))


_STORED = """
template(name="line" type="list") {{
  property(name="app-name") constant(value=" ") property(name="msgid") constant(value=" ")
  property(name="msg") constant(value="\\n")
}}
action(type="omfile" file="{}" template="line")
"""


def test_rsyslog_as_the_guide_configures_it_stores_every_event(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    port, stored = free_port(), tmp_path / "audit.log"
    (code,) = (
        block.code for block in blocks("docs/how-to/operate/audit-log.md") if "imtcp" in block.code
    )
    for guide, here in (
        ("/etc/rsyslog.d/ca.pem", str(certificate)),
        ("/etc/rsyslog.d/cert.pem", str(certificate)),
        ("/etc/rsyslog.d/key.pem", str(key)),
        ("6514", str(port)),
    ):
        assert guide in code
        code = code.replace(guide, here)
    file = tmp_path / "rsyslog.conf"
    file.write_text(code + _STORED.format(stored))
    process = subprocess.Popen(
        ["/usr/sbin/rsyslogd", "-n", "-f", str(file), "-i", str(tmp_path / "pid")]
    )

    async def story(log: Log) -> None:
        await log.write(20)
        await log.chain()
        export = _export(log, _deliver(f"syslog+tls://127.0.0.1:{port}", tmp_path))
        async with asyncio.timeout(20):
            # It is starting.
            while True:
                with suppress(NotExported):
                    await _all(export)
                    break
                await asyncio.sleep(0.05)
        ids = await log.ids()

        def lines() -> list[list[str]]:
            text = stored.read_text("utf-8") if stored.exists() else ""
            return [line.split(" ", 2) for line in text.splitlines()]

        await until(lambda: len(lines()) > len(ids))
        assert {app for app, _, _ in lines()} == {"valetkey"}
        read = [json.loads(message.lstrip("\ufeff ")) for _, _, message in lines()]
        assert [name for _, name, _ in lines()] == [event["name"] for event in read]
        _check(read, ids)

    try:
        tell(f"sqlite:///{tmp_path}/a.db", story)
    finally:
        process.terminate()
        process.wait()
