"""A worker that fails ends the measurement with one error; long answers may come in chunks."""

import asyncio
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Sequence

import pytest

from bench.load import Line, WorkloadError, measure
from bench.workloads import Repeat

_BODY = b'{"error":"' + b"x" * 300 + b'"}'


async def _server(answers: Sequence[bytes]) -> asyncio.Server:
    """It answers the first request with the first, and so on, the last again and again."""
    left = list(answers)

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                reply = left.pop(0) if len(left) > 1 else left[0]
                # Workers that were cancelled have an answer on its way.
                await asyncio.sleep(0.01)
                writer.write(reply)
        except (IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


def _whole(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d .\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


async def _measured(answers: Sequence[bytes], unexpected: list[str]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unexpected.append(context["message"]))
    server = await _server(answers)
    port = server.sockets[0].getsockname()[1]
    workers = [Repeat(Line("127.0.0.1", port), b"GET / HTTP/1.1\r\n\r\n", b"ok") for _ in range(8)]
    try:
        done = await measure(workers, 0.2, "Some server, userinfo")
    finally:
        for worker in workers:
            worker.connection.close()
        # Late answers come now, and the server sees that its callers are gone.
        await asyncio.sleep(0.05)
        server.close()
        await server.wait_closed()
    return done.operations


def test_one_failed_worker_ends_the_measurement_with_one_error() -> None:
    unexpected: list[str] = []
    answers = [_whole(200, b"ok")] * 20 + [_whole(500, _BODY), _whole(200, b"ok")]
    with pytest.raises(WorkloadError) as raised:
        asyncio.run(_measured(answers, unexpected))
    assert str(raised.value) == f"Some server, userinfo: status 500, body {_BODY[:200]!r}"
    assert unexpected == []


def test_a_chunked_answer_is_read_whole() -> None:
    chunked = (
        b"HTTP/1.1 200 .\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n3\r\n ok\r\n0\r\n\r\n"
    )
    unexpected: list[str] = []
    assert asyncio.run(_measured([chunked], unexpected)) >= 16
    assert unexpected == []
