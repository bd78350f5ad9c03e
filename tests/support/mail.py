"""A mail server for tests: a real one, in a thread, that keeps what it was given."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class MailServer:
    """What came, and what it is told to answer instead of taking it."""

    port: int = 0
    took: list[EmailMessage] = field(default_factory=list[EmailMessage])
    refuse_recipient: str = ""
    refuse_message: str = ""
    stop: Callable[[], object] = lambda: None

    async def handle_RCPT(  # noqa: N802 - the library finds it by this name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Say whether mail for the address is taken."""
        if self.refuse_recipient:
            return self.refuse_recipient
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the same
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a message."""
        if self.refuse_message:
            return self.refuse_message
        assert isinstance(envelope.content, bytes)
        self.took.append(read(envelope.content))
        return "250 OK"


def read(content: bytes) -> EmailMessage:
    """The message that these bytes are."""
    message = message_from_bytes(content, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def plain(message: EmailMessage) -> str:
    """Its plain text."""
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def links(text: str) -> list[str]:
    """The lines that are addresses."""
    return [line for line in text.splitlines() if line.startswith(("http://", "https://"))]


@contextmanager
def mail_server(*, user: str = "", password: str = "", **how: Any) -> Generator[MailServer]:
    """One that listens; with a user it wants a password, `how` goes to the library."""
    kept = MailServer()

    def sign_in(
        server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        good = (data.login, data.password) == (user.encode(), password.encode())
        return AuthResult(success=good, handled=False)

    if user:
        how |= {"authenticator": sign_in, "auth_required": True}
    loop, listening = asyncio.new_event_loop(), threading.Event()

    async def listen() -> None:
        over = asyncio.Event()
        kept.stop = lambda: loop.call_soon_threadsafe(over.set)
        server = await loop.create_server(lambda: SMTP(kept, **how), "127.0.0.1", 0)
        kept.port = server.sockets[0].getsockname()[1]
        listening.set()
        async with server:
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(listen()))
    thread.start()
    listening.wait()
    try:
        yield kept
    finally:
        kept.stop()
        thread.join()
        loop.close()
