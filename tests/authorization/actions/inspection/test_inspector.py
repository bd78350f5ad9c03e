"""The console's findings: within a time limit, one evaluation at a time, kept for a moment."""

import asyncio
from pathlib import Path
from time import monotonic

from tests.support.harness import Harness, run
from valetkey.authorization.actions.inspection.inspector import KEPT, WITHIN, Inspector
from valetkey.authorization.features import CHECKS
from valetkey.config.sections.people import MailSettings, MailTls
from valetkey.kernel.replace import replace


def _inspector(it: Harness, port: int) -> Inspector:
    mail = MailSettings(host="127.0.0.1", port=port, tls=MailTls.NONE, from_address="a@example.com")
    settings = replace(it.settings, mail=mail)
    foundation = it.foundation
    return Inspector(settings, foundation.store, foundation.keyring, foundation.roles, CHECKS)


def test_mail_server_that_never_answers_delays_no_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        connected: list[asyncio.StreamWriter] = []

        async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connected.append(writer)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        inspector = _inspector(it, server.sockets[0].getsockname()[1])
        began = monotonic()
        pages = await asyncio.gather(*(inspector.inspect(it.clock.now) for _ in range(64)))
        assert monotonic() - began < WITHIN + 2
        for page in pages:
            unfinished = [e.values for e in page.findings if e.condition.name == "unfinished"]
            assert unfinished == [{"part": "mail"}]
        it.clock.forward(KEPT + 1)
        await inspector.inspect(it.clock.now)
        assert len(connected) == 1
        for writer in connected:
            writer.close()
        server.close()

    run(tmp_path, story)


def test_findings_are_cached_and_inspected_again_after_expiry(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        connections = 0

        async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            writer.write(b"554 no\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        inspector = _inspector(it, server.sockets[0].getsockname()[1])
        for _ in range(3):
            findings = (await inspector.inspect(it.clock.now)).findings
            (mail,) = [
                finding for finding in findings if finding.condition.name == "mail_unreachable"
            ]
            assert "127.0.0.1" in mail.sentence
        assert connections == 1
        it.clock.forward(KEPT)
        await inspector.inspect(it.clock.now)
        assert connections == 2
        server.close()

    run(tmp_path, story)


def test_unreachable_database_is_a_finding(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        inspector = _inspector(it, 1)
        await it.foundation.store.engine.close()
        findings = (await inspector.inspect(it.clock.now)).findings
        assert {finding.condition.name for finding in findings} >= {"failed", "mail_unreachable"}

    run(tmp_path, story)
