"""Checks of streams: receivers that fail, and tokens that were dropped."""

from urllib.parse import urlsplit

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Installation,
    Level,
    RemedyButton,
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
    console=f"{ADDRESS}/%(stream)s",
    remedy=RemedyButton(translatable("Show its responses")),
)
SIGNAL_FAILED = SIGNAL_FAILING.as_bad("signal_stream_failed")

SIGNALS_GOOD = Condition(
    "signal_streams_good",
    Level.OK,
    "security events",
    translatable("No delivery is failing. Streams: %(count)s."),
)


def signals(tx: Transaction, installation: Installation) -> Findings:
    """Find the streams whose deliveries fail."""
    streams = SignalStreams.of(tx).all()
    for stream in streams:
        if stream.failing_since is None:
            continue
        last = SignalStreams.of(tx).failures(stream.id, 1)
        judged = (
            SIGNAL_FAILED if installation.now - stream.failing_since > _LONG else SIGNAL_FAILING
        )
        yield judged.finding(
            stream=stream.id,
            client=stream.client_id,
            host=urlsplit(stream.url).hostname,
            at=moment(stream.failing_since),
            outcome=last[0].outcome if last else "-",
            count=str(SignalQueue.of(tx).waiting_for(stream.id)),
        )
    if streams and not any(stream.failing_since for stream in streams):
        yield SIGNALS_GOOD.finding(count=len(streams))


CHECKS = (
    DatabaseCheck(
        "signals",
        signals,
        (SIGNAL_FAILING, SIGNAL_FAILED, SIGNALS_GOOD),
        translatable("Security event streams"),
    ),
)
