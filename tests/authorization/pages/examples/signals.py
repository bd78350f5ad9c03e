"""Examples of the pages about streams of security events."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.signals.pages import BUTTONS
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.object_page import Fact, ObjectPage, Related
from valetkey.authorization.site.admin.objects import Line, badge, code, since, text, words

_ONE = "/admin/signal-streams/ss_1"


def signals_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """Return each page by a name of its own."""
    below = (
        since(ago(600)),
        words("attempt %(number)s", number=5),
        code("ev_1.0.ss_1"),
        text(hostile.name),
    )
    lines = tuple(
        Line(text("session-revoked"), (badge(outcome, "alarm"), badge("dropped", "note")), below)
        for outcome in ("invalid_audience", long.name)
    )
    return {
        "admin_signal_stream": ObjectPage(
            "/admin/signal-streams",
            "Security event streams",
            "Apple Business Manager",
            state=(badge("Failing", "alarm"),),
            description=hostile.name,
            figures=(("Waiting tokens", 17), ("Dropped tokens", 1), ("Failures in a row", 3)),
            facts=(
                Fact("Address", (code("https://receiver.example.com/events"),)),
                Fact("Events", (words("A session ended", "session-revoked"),)),
                Fact("Last delivery", (since(ago(60)),)),
            ),
            actions=tuple(
                Offer(
                    slug,
                    operation_button.button.title,
                    f"{_ONE}/{slug}",
                    operation_button.button.danger,
                )
                for slug, operation_button in BUTTONS.by_slug.items()
                if slug != "enable"
            ),
            related=(Related("failures", "Failed deliveries", lines),),
        ),
    }
