"""Caps, deadlines, and what no request may look like."""

import asyncio
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from math import inf

import pytest

from tests.support.wait import until, wait_until
from tests.web import PATIENT, QUICK, connect, exchange_bytes, reset_by, small_app, statuses
from valetkey.kernel.replace import replace
from valetkey.web.client_address import Proxies
from valetkey.web.connection.gate import Gate, Limits, fault_of
from valetkey.web.listen import RunningServer

HOST = {b"host": b"h.example"}


GET = b"GET /none HTTP/1.1\r\nHost: h.example\r\n\r\n"
GET_LAST = GET[:-2] + b"Connection: close\r\n\r\n"


@dataclass(eq=False)
class Guest:
    """A connection that remembers how often it was told that its time is over."""

    address: str = "192.0.2.7"
    deadline: float = inf
    told: int = 0

    def expire(self) -> None:
        self.told += 1


def test_connection_beyond_the_limit_is_refused_until_one_closes() -> None:
    async def main() -> None:
        gate = Gate(replace(QUICK, connections=2), Proxies())
        first, second, third = Guest("192.0.2.1"), Guest("192.0.2.2"), Guest("192.0.2.3")
        assert gate.admit(first)
        assert gate.admit(second)
        assert not gate.admit(third)
        gate.release(third)
        assert len(gate) == 2
        gate.release(first)
        assert gate.admit(third)

    asyncio.run(main())


def test_connections_per_address_are_limited_except_for_proxies() -> None:
    async def main() -> None:
        limits = replace(QUICK, connections_per_address=2)
        gate = Gate(limits, Proxies((ip_network("10.0.0.0/8"),)))
        guests = [Guest() for _ in range(3)]
        assert [gate.admit(guest) for guest in guests] == [True, True, False]
        assert gate.admit(Guest("192.0.2.8"))
        proxied = [Guest("10.0.0.1") for _ in range(5)]
        assert all(gate.admit(guest) for guest in proxied)
        gate.release(proxied[0])
        for guest in guests:
            gate.release(guest)
            gate.release(guest)
        assert [gate.admit(Guest()) for _ in range(3)] == [True, True, False]

    asyncio.run(main())


def test_more_connections_than_one_address_may_have_are_closed_at_once() -> None:
    limits = replace(PATIENT, connections_per_address=3)
    with RunningServer(small_app(), limits=limits) as running, ExitStack() as stack:
        kept = [stack.enter_context(connect(running.port)) for _ in range(3)]
        for connection in kept:
            connection.sendall(GET)
            assert connection.recv(65_536)
        with connect(running.port) as one_too_many:
            assert reset_by(one_too_many)
        kept.pop().close()
        wait_until(lambda: _is_answered(running.port))


def _is_answered(port: int) -> bool:
    with suppress(ConnectionResetError):
        return statuses(exchange_bytes(port, GET_LAST)) == [200]
    return False


def test_only_connections_past_their_deadline_are_notified() -> None:
    async def main() -> None:
        now = asyncio.get_running_loop().time()
        late, busy, patient = Guest(deadline=now), Guest(), Guest()
        gate = Gate(QUICK, Proxies())
        assert all(gate.admit(guest) for guest in (late, busy, patient))
        await until(lambda: late.told)
        assert (busy.told, patient.told) == (0, 0)
        busy.deadline = now
        await until(lambda: busy.told)
        assert patient.told == 0

    asyncio.run(main())


def test_default_limits_are_as_documented() -> None:
    limits = Limits()
    assert (limits.header, limits.body, limits.idle, limits.write) == (10, 15, 30, 30)
    assert limits.header_fields == 100


@pytest.mark.parametrize(
    ("version", "target", "fields"),
    [
        pytest.param("2.0", b"/", HOST, id="version"),
        pytest.param("1.1", b"/", {}, id="no Host"),
        pytest.param("1.1", b"*", HOST, id="asterisk"),
        pytest.param("1.1", b"http://h.example/", HOST, id="absolute"),
        pytest.param("1.1", b"h.example:443", HOST, id="authority"),
        pytest.param("1.1", b"/a\\b", HOST, id="backslash"),
        pytest.param("1.1", b"/a#b", HOST, id="fragment"),
        pytest.param("1.1", b"/?a#b", HOST, id="fragment after query"),
        pytest.param("1.1", b"/\xff", HOST, id="not ASCII"),
        pytest.param("1.1", b"/a b", HOST, id="space"),
        pytest.param("1.1", b'/"', HOST, id="quote"),
        pytest.param("1.1", b"/", HOST | {b"transfer-encoding": b"gzip, chunked"}, id="gzip"),
        pytest.param("1.1", b"/", HOST | {b"transfer-encoding": b"identity"}, id="identity"),
        pytest.param("1.0", b"/", {b"transfer-encoding": b"chunked"}, id="chunked in 1.0"),
    ],
)
def test_invalid_request_has_a_fault(
    version: str, target: bytes, fields: dict[bytes, bytes]
) -> None:
    assert fault_of(version, target, fields)


@pytest.mark.parametrize(
    ("version", "target", "fields"),
    [
        ("1.1", b"/", HOST),
        ("1.1", b"//evil/..", HOST),
        ("1.1", b"/v2/notes/a%20b;c=d,e@f:~!$&'()*+", HOST),
        ("1.1", b'/?scope=a|b&x={"y\\"}', HOST),
        ("1.1", b"/", HOST | {b"transfer-encoding": b"Chunked"}),
        ("1.0", b"/", {}),
    ],
)
def test_valid_request_has_no_fault(
    version: str, target: bytes, fields: dict[bytes, bytes]
) -> None:
    assert fault_of(version, target, fields) == ""
