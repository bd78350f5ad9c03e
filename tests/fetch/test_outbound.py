"""The door to servers of strangers: what it brings, and what keeps it shut."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.fetch.canary import Clock, answer, certificate, door, listening
from tests.support.otlp import recording
from tests.support.wait import CEILING, until
from valetkey.fetch.address import AT_ONCE_SITE, AT_ONCE_THERE
from valetkey.fetch.outbound import LARGEST, REMEMBERED, Fetched, OutboundHttp, Unfetchable
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.tracing import TRACES


def _run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story()

    asyncio.run(whole())


async def _refused(asking: Awaitable[Fetched]) -> str:
    with pytest.raises(Unfetchable) as caught:
        await asking
    # The same words whatever was wrong: who asked for it learns nothing of the network.
    assert str(caught.value) == "the address gives no usable answer"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value.check


def test_response_has_status_media_type_and_body() -> None:
    async def story() -> None:
        response = answer(b'{"keys":[]}', "Application/JSON; charset=utf-8")
        async with listening(response) as canary:
            fetch, _ = door()
            fetched = await fetch.get(canary.url)
            assert fetched == Fetched(200, "application/json", b'{"keys":[]}')
            head = canary.heard[0].decode().lower()
            assert head.startswith("get /keys http/1.1\r\n")
            assert f"\r\nhost: 127.0.0.1:{canary.port}\r\n" in head
            assert "\r\naccept-encoding: identity\r\n" in head
            assert "\r\naccept: application/json\r\n" in head
            assert "cookie" not in head
            assert "authorization" not in head

    _run(story)


def test_form_is_posted_and_an_error_status_is_returned() -> None:
    async def story() -> None:
        async with listening(answer(b"no", "text/plain", "400 Bad Request")) as canary:
            fetch, _ = door()
            fetched = await fetch.post_form(canary.url, {"logout_token": "a b&c"})
            assert (fetched.status, fetched.body) == (400, b"no")
            assert canary.heard[0].endswith(b"\r\n\r\nlogout_token=a+b%26c")
            assert b"application/x-www-form-urlencoded" in canary.heard[0]

    _run(story)


def test_host_is_resolved_once_and_sent_in_the_host_header() -> None:
    async def story() -> None:
        async with listening(answer()) as canary:
            fetch, resolver = door(["127.0.0.1"], ["127.0.0.2"])
            await fetch.get(f"http://app.example:{canary.port}?a=b")
            assert resolver.asked == [("app.example", canary.port)]
            head = canary.heard[0].decode().lower()
            assert head.startswith("get /?a=b http/1.1\r\n")
            assert f"\r\nhost: app.example:{canary.port}\r\n" in head

    _run(story)


def test_next_address_is_tried_if_one_does_not_respond() -> None:
    async def story() -> None:
        async with listening(answer()) as canary:
            fetch, _ = door(["::1", "127.0.0.1"])
            assert (await fetch.get(f"http://app.example:{canary.port}/")).status == 200

    _run(story)


def test_tls_server_name_is_the_host_of_the_url(tmp_path: Path) -> None:
    shown = certificate(tmp_path, "app.example")
    names: list[str | None] = []
    shown.context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def story() -> None:
        async with listening(answer(), tls=shown.context) as canary:
            fetch, _ = door(ca_file=shown.ca_file)
            assert (await fetch.get(f"https://app.example:{canary.port}/")).body == b"{}"
            assert names == ["app.example"]

    _run(story)


@pytest.mark.parametrize(
    ("said", "check"),
    [
        (b"", "fetch.answer"),
        (b"nonsense\r\n\r\n", "fetch.answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "fetch.answer"),
        (answer(b"x" * (LARGEST + 1)), "fetch.large"),
        (answer(more="content-encoding: gzip\r\n"), "fetch.encoding"),
        (answer(status="404 Not Found"), "fetch.status"),
        (answer(status="204 No Content"), "fetch.status"),
        (answer(kind="text/html"), "fetch.type"),
        (answer(kind=""), "fetch.type"),
    ],
)
def test_incomplete_large_or_unexpected_answer_is_refused(said: bytes, check: str) -> None:
    async def story() -> None:
        async with listening(said) as canary:
            fetch, _ = door()
            assert await _refused(fetch.get(canary.url)) == check

    _run(story)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "app.example/x",
        "ftp://app.example/x",
        "file:///etc/passwd",
        "https://user@app.example/x",
        "https://app.example/x#y",
        "https://app.example\\@evil.example/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://[::1/",
        "https://app.example:99999/",
        " https://app.example/",
        "https://app.example/\r\nhost: evil",
        "HTTPS://APP.EXAMPLE/",
    ],
)
def test_invalid_or_ambiguous_url_is_refused_before_lookup(url: str) -> None:
    async def story() -> None:
        fetch, resolver = door()
        assert await _refused(fetch.get(url)) == "fetch.url"
        assert await _refused(fetch.post_form(url, {})) == "fetch.url"
        assert resolver.asked == []

    _run(story)


def test_host_without_valid_addresses_is_refused() -> None:
    async def story() -> None:
        for addresses in ((), ("not an address",), ("127.0.0.1", "fe80::1%eth0")):
            fetch, _ = door(addresses)
            assert await _refused(fetch.get("http://app.example/")) == "fetch.name"

    _run(story)


def test_system_resolver_is_used_if_no_other_is_given() -> None:
    async def story() -> None:
        async with listening(answer()) as canary:
            fetch = OutboundHttp(door()[0]._allow, Clock())
            url = f"http://localhost:{canary.port}/"
            assert (await fetch.get(url)).status == 200
            assert await _refused(fetch.get("https://no.such.name.invalid/")) == "fetch.name"

    _run(story)


def test_concurrent_fetches_of_one_url_share_one_request() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        async with listening(answer(), opened=gate) as canary:
            fetch, _ = door()
            first = asyncio.create_task(fetch.get(canary.url))
            others = [asyncio.create_task(fetch.get(canary.url)) for _ in range(20)]
            await until(lambda: canary.heard)
            # Who asked first goes away: the others still get their answer.
            first.cancel()
            gate.set()
            assert {fetched.body for fetched in await asyncio.gather(*others)} == {b"{}"}
            assert canary.connections == 1

    _run(story)


def test_failed_fetch_is_not_repeated_while_its_failure_is_remembered() -> None:
    async def story() -> None:
        clock = Clock()
        async with listening(answer(status="500 No")) as canary:
            fetch, _ = door(clock=clock)
            for _ in range(5):
                assert await _refused(fetch.get(canary.url)) == "fetch.status"
            assert canary.connections == 1
            clock.now = Instant(clock.now + REMEMBERED)
            assert await _refused(fetch.get(canary.url)) == "fetch.status"
            assert canary.connections == 2

    _run(story)


def test_slow_server_does_not_delay_fetches_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valetkey.fetch.outbound.ANSWER_WITHIN", CEILING)

    async def story() -> None:
        gate = asyncio.Event()
        async with listening(answer(), opened=gate) as slow, listening(answer()) as quick:
            fetch, _ = door()
            urls = [f"{slow.url}/{number}" for number in range(3 * AT_ONCE_THERE)]
            waiting = [asyncio.create_task(fetch.get(url)) for url in urls]
            await until(lambda: slow.connections == AT_ONCE_THERE)
            assert (await fetch.get(quick.url)).status == 200
            assert slow.connections == AT_ONCE_THERE
            gate.set()
            assert {response.status for response in await asyncio.gather(*waiting)} == {200}

    _run(story)


def test_slow_servers_of_one_site_do_not_delay_fetches_from_other_sites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("valetkey.fetch.outbound.ANSWER_WITHIN", CEILING)

    async def story() -> None:
        gate = asyncio.Event()
        async with listening(answer(), opened=gate) as slow, listening(answer()) as quick:
            fetch, _ = door()
            places = [f"http://app{number}.evil.example:{slow.port}/" for number in range(100)]
            waiting = [asyncio.create_task(fetch.get(url)) for url in places]
            await until(lambda: slow.connections == AT_ONCE_SITE)
            quick_response = await fetch.get(f"http://app.other.example:{quick.port}/")
            assert quick_response.status == 200
            assert slow.connections == AT_ONCE_SITE
            gate.set()
            assert {response.status for response in await asyncio.gather(*waiting)} == {200}

    _run(story)


def test_requests_to_a_server_that_never_responds_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by requests that are still queued for it."""
    monkeypatch.setattr("valetkey.fetch.outbound.ANSWER_WITHIN", 0.1)

    async def story() -> None:
        async with listening(opened=asyncio.Event()) as slow:
            fetch, _ = door()
            urls = [f"{slow.url}/{number}" for number in range(2 * AT_ONCE_THERE)]
            ends = await asyncio.gather(*(_refused(fetch.get(url)) for url in urls))
            assert set(ends) == {"fetch.slow"}

    _run(story)


def test_ca_file_without_certificates_is_an_operator_error(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")

    for there in (file, tmp_path / "absent.pem"):
        fetch, _ = door(ca_file=there)
        with pytest.raises(OperatorError, match=r"fetch\.ca_file"):
            fetch.prepare()


def test_tls_before_1_2_is_disabled() -> None:
    assert ssl.create_default_context().minimum_version >= ssl.TLSVersion.TLSv1_2


def test_requests_carry_trace_context_and_no_span_holds_their_path() -> None:
    async def story() -> None:
        async with listening(answer(b"{}", "application/json")) as canary:
            fetch, _ = door()
            with recording():
                await fetch.get(canary.url)
                (span,) = TRACES.drain(10)
            sent = canary.heard[0].decode().lower()
            assert f"\r\ntraceparent: {span.headers()['traceparent']}\r\n" in sent
            assert span.name == "GET"
            assert span.attributes == {
                "http.request.method": "GET",
                "server.address": "127.0.0.1",
                "server.port": canary.port,
                "http.response.status_code": 200,
            }
        with recording():
            check = await _refused(fetch.get(f"http://127.0.0.1:{canary.port}/gone"))
            (span,) = TRACES.drain(10)
            assert span.failure == check

    _run(story)
