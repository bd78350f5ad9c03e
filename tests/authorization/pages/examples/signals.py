"""Examples of the pages about streams of security events."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.signals.pages import (
    BUTTONS,
    SignalFailureLine,
    SignalStreamPage,
    SignalStreamRow,
    SignalStreamsPage,
)
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.kernel.replace import replace

_ONE = "/admin/signal-streams/ss_1"
_ROW = SignalStreamRow(_ONE, "apple-business-manager", "push", "enabled", 0)
_FAILURE = SignalFailureLine(
    at=ago(600),
    type="session-revoked",
    token_id="ev_1.0.ss_1",
    attempt=5,
    outcome="invalid_audience",
    description="Not for us",
    dropped=True,
)
_PAGE = SignalStreamPage(
    back="/admin/signal-streams",
    row=_ROW,
    stream_id="ss_aLK10lrmv1k2fsuxsIlNQs",
    url="https://receiver.example.com/events",
    events=("session-revoked", "credential-change"),
    description="Managed devices",
    reason="",
    dropped=0,
    failures=0,
    created=ago(900_000),
    delivered=ago(60),
    failing=None,
    ways=tuple(
        Offer(slug, each.button.title, f"{_ONE}/{slug}", each.button.danger)
        for slug, each in BUTTONS.by_slug.items()
        if slug != "enable"
    ),
    edit_url=f"{_ONE}/edit",
    failed=(),
)


def signals_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """Return each page by a name of its own."""
    states = ("enabled", "failing", "paused", "disabled")
    rows = tuple(replace(_ROW, state=each, waiting=number) for number, each in enumerate(states))
    page = SignalStreamsPage(rows, "/admin/signal-streams/new", deleted=True)
    return {
        "admin_signal_streams": page,
        "admin_signal_streams_none": SignalStreamsPage((), "", deleted=False),
        "admin_signal_stream": _PAGE,
        "admin_signal_stream_failing": replace(
            _PAGE,
            row=replace(_ROW, state="failing", waiting=17),
            failing=ago(4_000),
            failures=3,
            dropped=1,
            failed=(_FAILURE, replace(_FAILURE, outcome="503", description="", dropped=False)),
        ),
        "admin_signal_stream_hostile": replace(
            _PAGE,
            row=replace(_ROW, client_id=long.name, state="paused", method="poll"),
            url="",
            description=hostile.name,
            reason=hostile.name,
            failed=(replace(_FAILURE, description=hostile.name, outcome=long.name),),
        ),
    }
