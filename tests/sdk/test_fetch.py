"""The door to the issuer."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.sdk.certificate import self_signed
from tests.sdk.issuer import Clock, Issuer
from valetkey.kernel.secret import Secret
from valetkey.sdk.fetch import (
    LARGEST_ANSWER,
    Answer,
    Credential,
    Fetcher,
    Unreachable,
    default_trust,
)


@asynccontextmanager
async def _saying(answer: bytes, heard: list[bytes]) -> AsyncGenerator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}/x"


def _fetch(answer: bytes, heard: list[bytes]) -> Answer:
    async def story() -> Answer:
        async with _saying(answer, heard) as url, Fetcher() as fetch:
            return await fetch.get(url, Credential("a:b", Secret("c d%")))

    return asyncio.run(story())


def test_the_credential_is_form_encoded_basic() -> None:
    heard: list[bytes] = []
    answer = _fetch(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", heard)
    assert answer == Answer(200, b"ok")
    # base64 of "a%3Ab:c+d%25"
    assert b"authorization: Basic YSUzQWI6YytkJTI1\r\n" in heard[0].replace(
        b"Authorization", b"authorization"
    )
    assert b"identity" in heard[0]


def test_authorities_of_the_system_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = self_signed(tmp_path)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, key)

    async def story() -> bool:
        async with Issuer(Clock(), tls=serving).running() as issuer, Fetcher() as fetch:
            try:
                return (await fetch.get(f"{issuer.url}/oauth/jwks")).status == 200
            except Unreachable:
                return False

    answered: list[bool] = []
    for store in ("/dev/null", str(certificate)):
        # The names by which OpenSSL finds the authorities of the system.
        monkeypatch.setenv("SSL_CERT_FILE", store)
        monkeypatch.setenv("SSL_CERT_DIR", "/dev/null")
        default_trust.cache_clear()
        answered.append(asyncio.run(story()))
    default_trust.cache_clear()
    assert answered == [False, True]


def test_redirect_is_not_followed() -> None:
    heard: list[bytes] = []
    moved = b"HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n"
    assert _fetch(moved, heard).status == 302
    assert len(heard) == 1


def test_compressed_response_is_not_decompressed() -> None:
    raw = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x00"
    assert _fetch(raw, []).body == b"\x1f\x8b\x00"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (LARGEST_ANSWER + 1),
    ],
)
def test_malformed_truncated_or_too_large_response_is_unreachable(answer: bytes) -> None:
    with pytest.raises(Unreachable):
        _fetch(answer, [])


def test_a_closed_port_is_unreachable() -> None:
    async def story() -> None:
        async with Fetcher() as fetch:
            with pytest.raises(Unreachable):
                await fetch.get("http://127.0.0.1:1/x")
            with pytest.raises(Unreachable):
                await fetch.post_form("http://[broken/x", {"a": "b"})

    asyncio.run(story())
