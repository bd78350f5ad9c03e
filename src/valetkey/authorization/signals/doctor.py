"""Checks of streams: receivers that fail, and tokens that were dropped."""

from urllib.parse import urlsplit

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Level,
    Site,
    moment,
)
from valetkey.authorization.signals.model import ADDRESS
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import hours
from valetkey.kernel.text import translatable

_LONG = hours(1)

SIGNAL_FAILING = Condition(
    "signal_stream_failing",
    Level.WARNING,
    "security events to %(client)s",
    translatable(
        "The receiver %(host)s of security events has failed since %(at)s, last with %(outcome)s. "
        "Waiting tokens: %(count)s."
    ),
    translatable("Look at its responses:"),
    "valetkey signal-stream failures %(stream)s",
    page="how-to/operate/shared-signals",
    console=ADDRESS,
)
SIGNAL_FAILED = SIGNAL_FAILING.as_bad("signal_stream_failed")


def signals(tx: Transaction, site: Site) -> Findings:
    """Find the streams whose deliveries fail."""
    for each in SignalStreams.of(tx).all():
        if each.failing_since is None:
            continue
        last = SignalStreams.of(tx).failures(each.id, 1)
        judged = SIGNAL_FAILED if site.now - each.failing_since > _LONG else SIGNAL_FAILING
        yield judged.found(
            stream=each.id,
            client=each.client_id,
            host=urlsplit(each.url).hostname,
            at=moment(each.failing_since),
            outcome=last[0].outcome if last else "-",
            count=str(SignalQueue.of(tx).waiting_for(each.id)),
        )


CHECKS = (DatabaseCheck("signals", signals, (SIGNAL_FAILING, SIGNAL_FAILED)),)
