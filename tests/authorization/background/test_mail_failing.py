"""A mail server that takes nothing is counted and warned of; one email that it refuses is not."""

import io
import json
from pathlib import Path

import pytest

from tests.authorization.background.test_post import Town, mail_settings, run
from tests.support.mail import MailServer as Receiver
from valetkey.authorization.email.delivery import PAUSES, MailServer
from valetkey.config.settings import Settings
from valetkey.kernel import metrics
from valetkey.kernel.replace import replace
from valetkey.web import log


@pytest.mark.parametrize("is_there", [True, False])
def test_failed_email_is_counted_and_only_a_lost_connection_warns(
    tmp_path: Path, is_there: bool
) -> None:
    stream = io.StringIO()
    log._seldom.clear()

    async def story(it: Town, receiver: Receiver) -> None:
        receiver.refuse_message = "451 come back later"
        if not is_there:
            unused = mail_settings(1)
            send = MailServer.from_settings(replace(Settings(), mail=unused)).send
            it.office = replace(it.office, send=send)
        await it.post()
        before = _attempts()
        log.set_up("info", "json", stream)
        await it.deliver()
        assert _attempts()["failed"] == before.get("failed", 0) + 1
        receiver.refuse_message = ""
        it.clock.forward(PAUSES[0])
        await it.deliver()
        delivered = _attempts().get("delivered", 0) - before.get("delivered", 0)
        assert delivered == is_there

    try:
        run(tmp_path, story)
    finally:
        log.set_up("warning", "json")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    reasons = {(line["level"], line.get("reason", line.get("cause"))) for line in lines}
    assert reasons == {
        ("info", "message rejected with 451") if is_there else ("warning", "no connection")
    }


def _attempts() -> dict[str, float]:
    return {outcome: value for (outcome,), (value,) in metrics.MAILS.samples()}
