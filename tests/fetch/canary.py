"""A listener that counts who knocks, and the certificates it may show."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def answer(
    body: bytes = b"{}", kind: str = "application/json", status: str = "200 OK", more: str = ""
) -> bytes:
    """An answer as it goes over the wire."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@dataclass
class Canary:
    """How often somebody connected, and what they sent."""

    port: int = 0
    connections: int = 0
    heard: list[bytes] = field(default_factory=list[bytes])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"


@asynccontextmanager
async def listening(
    response: bytes = b"", *, tls: ssl.SSLContext | None = None, opened: asyncio.Event | None = None
) -> AsyncGenerator[Canary]:
    """A canary on a free port of loopback that says `response` to everybody once it is `opened`."""
    canary = Canary()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        canary.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = [line for line in head.lower().split(b"\r\n") if b"content-length" in line]
            body = await reader.readexactly(int(size[0].split(b":")[1])) if size else b""
            canary.heard.append(head + body)
            if opened is not None:
                await opened.wait()
            writer.write(response)
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    canary.port = server.sockets[0].getsockname()[1]
    async with server:
        yield canary


@dataclass
class Resolver:
    """Says what it was told to say, one list after the other; the last one for ever."""

    answers: Sequence[Sequence[str]]
    asked: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def __call__(self, host: str, port: int, /) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@dataclass
class Clock:
    """A clock that is turned by hand."""

    now: Instant = field(default_factory=SYSTEM.now)

    def __call__(self) -> Instant:
        return self.now


def door(
    *answers: Sequence[str],
    inside: bool = True,
    ca_file: Path | None = None,
    clock: Clock | None = None,
) -> tuple[OutboundHttp, Resolver]:
    """A door that may go to loopback if `inside`, and the resolver that it asks."""
    resolver = Resolver(answers or (("127.0.0.1",),))
    allow = LOOPBACK if inside else ()
    return OutboundHttp(allow, clock or Clock(), ca_file=ca_file, resolve=resolver), resolver


@dataclass(frozen=True)
class Shown:
    """A certificate authority of its own, and a certificate that it signed."""

    ca_file: Path
    context: ssl.SSLContext


def certificate(folder: Path, name: str, *, expired: bool = False) -> Shown:
    """What a server called `name` shows; the authority is nobody's but ours."""
    now = dt.datetime.now(dt.UTC)
    begins = now - dt.timedelta(days=20)
    ends = now + dt.timedelta(days=-10 if expired else 10)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in "12")
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a CA of a test")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
        )

    ca = (
        builder(issuer, ca_key.public_key())
        .not_valid_after(now + dt.timedelta(days=10))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    leaf = (
        builder(subject, key.public_key())
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    files = folder / "ca.pem", folder / "leaf.pem", folder / "leaf.key"
    files[0].write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    files[2].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[2])
    return Shown(files[0], context)
