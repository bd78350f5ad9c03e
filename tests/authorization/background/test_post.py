"""The post: a letter arrives once it can, at least once, and nobody else reads it on the way."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.sdk.certificate import self_signed
from tests.support.harness import ADA, NOON, Clock
from tests.support.mail import MailServer as Receiver
from tests.support.mail import links, mail_server, plain
from valetkey.authorization.app.foundation import Foundation, build_foundation, prepare
from valetkey.authorization.background.maintenance import SWEEPS, sweep_all
from valetkey.authorization.email.delivery import (
    BATCH,
    PAUSES,
    MailDelivery,
    MailServer,
    NotDelivered,
)
from valetkey.authorization.email.notices import ASKED_LIMIT
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import LEASE, LIFETIME, Email, EmailKind
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.config.sections.people import MailSettings, MailTls, MailTransport
from valetkey.config.settings import Settings, SettingsSource
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret

LINK = "https://auth.example/account/verify?link=vk_ln_secret"
VALUES = {"username": "ada", "link": LINK}
VERIFY = Email(EmailKind.VERIFY_EMAIL, "ada@example.com", "en", VALUES, ADA)


@dataclass
class Town:
    """A database with an outbox, and a post office with a clock to turn."""

    foundation: Foundation
    clock: Clock
    office: MailDelivery

    async def post(self, letter: Email = VERIFY) -> bool:
        """Hand a letter in."""
        now, store = self.clock.now, self.foundation.store.acting(USUAL_ACTOR)
        return await store.write(lambda tx: self.foundation.outbox.enqueue(tx, letter, now))

    async def deliver(self) -> None:
        """Send all that is due."""
        while await self.office.deliver_some():
            pass

    async def waiting(self) -> int:
        """How many letters wait."""
        return await self.foundation.store.read(lambda tx: tx.mails.waiting())

    async def events(self) -> list[str]:
        """What became of letters."""
        page = await self.foundation.store.read(lambda tx: tx.events.page(Instant(0), "", 999))
        return [f"{event.name} {event.data}" for event in page if event.name.startswith("mail.")]


def mail_settings(port: int, **how: object) -> MailSettings:
    """To a server on this machine."""
    plain_ = MailSettings(
        host="127.0.0.1", port=port, tls=MailTls.NONE, from_address="no-reply@auth.example"
    )
    return replace(plain_, **how)  # type: ignore[arg-type]


@asynccontextmanager
async def town(
    directory: Path, mail: MailSettings, database: str = "", *, begun: bool = False
) -> AsyncGenerator[Town]:
    clock = Clock()
    runtime = Runtime(lambda: clock.now, SYSTEM.random)
    defaults = Settings()
    url = database or f"sqlite:///{directory}/auth.db"
    settings = replace(
        defaults,
        authorization=replace(defaults.authorization, database=url),
        mail=mail,
        source=SettingsSource(None, directory, {}),
    )
    if not begun:
        await prepare(settings, runtime)
    foundation = build_foundation(settings, runtime, {})
    send = MailServer.from_settings(settings).send
    brand = Brand("Notes & more")
    office = MailDelivery(foundation.store, foundation.outbox, send, lambda: brand, runtime)
    try:
        yield Town(foundation, clock, office)
    finally:
        await foundation.store.engine.close()


def run(
    directory: Path,
    story: Callable[[Town, Receiver], Awaitable[None]],
    database: str = "",
    **how: object,
) -> None:
    """Tell a story with a mail server."""

    async def tell(receiver: Receiver) -> None:
        async with town(directory, mail_settings(receiver.port, **how), database) as it:
            await story(it, receiver)

    with mail_server() as receiver:
        asyncio.run(tell(receiver))


def test_email_arrives_as_text_and_html_with_sender_headers(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        assert await it.post()
        assert await it.waiting() == 1
        await it.deliver()
        assert await it.waiting() == 0
        (message,) = receiver.took
        assert message["From"] == "Notes & more <no-reply@auth.example>"
        assert message["To"] == "ada@example.com"
        assert message["Subject"] == "Verify your email address"
        assert message["Auto-Submitted"] == "auto-generated"
        assert message["Date"].datetime.timestamp() == NOON
        assert message["Message-ID"].endswith("@auth.example>")
        assert links(plain(message)) == [LINK]
        html = message.get_body(("html",))
        assert html is not None
        content = str(html.get_content())
        assert f'href="{LINK}"' in content
        assert "Notes &amp; more" in content
        assert "<img" not in content
        assert await it.events() == [
            'mail.dispatched {"uid":1001,"kind":"verify_email","attempts":1}'
        ]

    run(tmp_path, story, database_url)


def test_queued_email_is_unreadable_in_the_database(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        await it.post()
        row = await it.foundation.store.read(lambda tx: tx.db.row("SELECT * FROM outbox"))
        assert "vk_ln_secret" not in str(row)
        assert "ada@example.com" not in str(row)

    run(tmp_path, story)


def test_two_processes_send_each_email_once(database_url: str, tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        mail = it.foundation.settings.mail
        async with town(tmp_path, mail, database_url, begun=True) as other:
            for number in range(3 * BATCH):
                assert await it.post(replace(VERIFY, to=f"a{number}@example.com"))
            await asyncio.gather(it.deliver(), other.deliver())
        assert len(receiver.took) == 3 * BATCH
        assert len({message["To"] for message in receiver.took}) == 3 * BATCH

    run(tmp_path, story, database_url)


def test_email_survives_its_process(database_url: str, tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        await it.post()
        now, store = it.clock.now, it.foundation.store.acting(USUAL_ACTOR)
        until = Instant(now + LEASE)
        # A process takes it and is killed before it sent anything.
        assert await store.write(lambda tx: tx.mails.lease(now, until, 9))
        await it.deliver()
        assert receiver.took == []
        it.clock.forward(LEASE)
        await it.deliver()
        assert len(receiver.took) == 1
        assert await it.waiting() == 0

    run(tmp_path, story, database_url)


def test_rolled_back_transaction_queues_no_email(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        def work(tx: object) -> None:
            assert it.foundation.outbox.enqueue(tx, VERIFY, it.clock.now)  # type: ignore[arg-type]
            raise ValueError

        with pytest.raises(ValueError, match=r"^$"):
            await it.foundation.store.write(work, done_by=USUAL_ACTOR)
        await it.deliver()
        assert receiver.took == []

    run(tmp_path, story)


def test_email_is_sent_again_later_after_a_temporary_failure(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        receiver.refuse_message = "451 come back later"
        await it.post()
        await it.deliver()
        receiver.refuse_message = ""
        await it.deliver()
        assert receiver.took == []
        it.clock.forward(PAUSES[0])
        await it.deliver()
        assert len(receiver.took) == 1
        assert '"attempts":2' in (await it.events())[0]

    run(tmp_path, story)


def test_email_is_dropped_after_a_day_with_an_event(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        receiver.refuse_recipient = "450 not now"
        await it.post()
        for _ in range(40):
            await it.deliver()
            it.clock.forward(PAUSES[-1])
        assert await it.waiting() == 0
        (event,) = await it.events()
        assert event.startswith("mail.given_up")
        assert '"because":"recipient rejected with 450"' in event
        assert it.clock.now > NOON + LIFETIME

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("what", "answer", "because"),
    [
        ("refuse_recipient", "550 nobody of that name", "recipient rejected with 550"),
        ("refuse_message", "554 we do not like it", "message rejected with 554"),
    ],
)
def test_permanent_smtp_error_ends_delivery(
    tmp_path: Path, what: str, answer: str, because: str
) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        setattr(receiver, what, answer)
        await it.post()
        await it.deliver()
        assert await it.waiting() == 0
        assert f'"because":"{because}"' in (await it.events())[0]

    run(tmp_path, story)


def test_email_with_an_expired_link_is_not_sent(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        await it.post(replace(VERIFY, good_until=Instant(NOON + minutes(20))))
        it.clock.forward(minutes(21))
        await it.deliver()
        assert receiver.took == []
        assert '"because":"expired before delivery"' in (await it.events())[0]

    run(tmp_path, story)


@pytest.mark.parametrize(
    "to",
    [
        "a@b\r\nBcc: x@evil.example",
        "a@b, x@evil.example",
        "<a@b>",
        "a b@c",
        "a",
        "@",
        "a@b@c",
        '"x"@b',
        "a@" + "b" * 400,
    ],
)
def test_lg_25_line_breaks_in_addresses_cannot_add_headers(tmp_path: Path, to: str) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        assert await it.post(replace(VERIFY, to=to))
        await it.deliver()
        assert receiver.took == []
        assert '"because":"invalid address"' in (await it.events())[0]

    run(tmp_path, story)


def test_lg_25_line_breaks_in_values_cannot_add_headers_links_or_markup(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        name = "ada\r\nBcc: x@evil.example\r\n\r\nhttps://evil.example/\u2029<b>"
        await it.post(replace(VERIFY, values={"username": name, "link": LINK}))
        await it.deliver()
        (message,) = receiver.took
        assert message["Bcc"] is None
        assert links(plain(message)) == [LINK]
        html = message.get_body(("html",))
        assert html is not None
        assert "<b>" not in str(html.get_content())

    run(tmp_path, story)


def test_unauthenticated_emails_per_address_are_limited(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        spelt = ("ada@example.com", "ADA@example.com")
        sent = [await it.post(replace(VERIFY, to=spelt[n % 2])) for n in range(9)]
        assert sent == [True] * ASKED_LIMIT.attempts + [False] * (9 - ASKED_LIMIT.attempts)
        assert await it.post(replace(VERIFY, to="bob@example.com"))
        notice = Email(EmailKind.TEST, "ada@example.com", "en")
        assert await it.post(notice)

    run(tmp_path, story)


def test_where_mail_is_off_nothing_is_queued(tmp_path: Path) -> None:
    async def story() -> None:
        async with town(tmp_path, MailSettings()) as it:
            assert not it.foundation.outbox.is_on
            assert not await it.post()
            assert await it.waiting() == 0

    asyncio.run(story())


def test_mailbox_keeps_emails_for_a_day_and_sends_none(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        assert await it.post()
        store = it.foundation.store.acting(USUAL_ACTOR)
        await store.write(lambda tx: it.foundation.outbox.enqueue_decoy(tx, VERIFY, NOON))
        await it.deliver()
        assert receiver.took == []
        kept = await store.read(lambda tx: tx.mails.for_mailbox(NOON, 9))
        assert [it.foundation.outbox.open(mail) for mail in kept] == [VERIFY]
        later = Instant(NOON + days(2))
        assert await store.read(lambda tx: tx.mails.for_mailbox(later, 9)) == []
        await sweep_all(store, later, SWEEPS)
        row = await store.read(lambda tx: tx.db.row("SELECT count(*) FROM outbox"))
        assert row is not None
        assert row[0] == 0

    run(tmp_path, story, transport=MailTransport.MAILBOX)


def _tls(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(folder))
    return context


def test_mail_server_gets_starttls_and_the_configured_password(tmp_path: Path) -> None:
    context = _tls(tmp_path)
    (tmp_path / "password").write_text("a mail password\n")

    async def story(port: int, **how: object) -> None:
        mail = mail_settings(port, tls=MailTls.STARTTLS, ca_file="issuer.pem", user="me", **how)
        async with town(tmp_path, mail) as it:
            await it.post()
            await it.deliver()
            if how.get("password_file"):
                await MailServer.from_settings(it.foundation.settings).check()
            else:
                with pytest.raises(NotDelivered, match="sign-in rejected with 535"):
                    await MailServer.from_settings(it.foundation.settings).check()

    with mail_server(
        user="me", password="a mail password", tls_context=context, require_starttls=True
    ) as receiver:
        asyncio.run(story(receiver.port, password=Secret("wrong")))
        assert receiver.took == []
        asyncio.run(story(receiver.port, password_file="password"))
        assert len(receiver.took) == 1


def test_mail_server_without_starttls_gets_no_email(tmp_path: Path) -> None:
    async def story(it: Town, receiver: Receiver) -> None:
        await it.post()
        await it.deliver()
        assert receiver.took == []
        with pytest.raises(NotDelivered, match="no support for STARTTLS"):
            await MailServer.from_settings(it.foundation.settings).check()

    run(tmp_path, story, tls=MailTls.STARTTLS)


def test_mail_server_with_untrusted_certificate_gets_nothing(tmp_path: Path) -> None:
    context = _tls(tmp_path)

    async def story(port: int) -> None:
        async with town(tmp_path, mail_settings(port, tls=MailTls.STARTTLS)) as it:
            with pytest.raises(NotDelivered, match="TLS failed"):
                await MailServer.from_settings(it.foundation.settings).check()

    with mail_server(tls_context=context) as receiver:
        asyncio.run(story(receiver.port))


def test_refused_connection_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        async with town(tmp_path, mail_settings(1)) as it:
            with pytest.raises(NotDelivered, match="no connection"):
                await MailServer.from_settings(it.foundation.settings).send(EmailMessage())

    asyncio.run(story())
