"""Examples of the pages about webhooks, in the console and in the portal."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from tests.authorization.pages.examples.developer import FRAME, HEAD
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.input_fields import input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.object_page import Fact, ObjectPage, Related
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    ListWords,
    ObjectList,
    Part,
    Row,
    badge,
    code,
    since,
    text,
    words,
)
from valetkey.authorization.webhooks.model import WebhookWanted
from valetkey.authorization.webhooks.pages import BUTTONS, CONSOLE, of_team, secret_page
from valetkey.kernel.replace import replace

_OF_TEAM = of_team(FRAME)
_ONE = "/admin/webhooks/wh_1"
_URL = "https://crm.example.com/hooks/users"


def webhooks_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """All of them."""
    of_app = _OF_TEAM.path.replace("{client_id}", HEAD.client_id)
    parts = (badge("Failing", "alarm"),), (Part("number", count=2),)
    page = ObjectList(
        of_app,
        ListWords("Webhooks, oldest first", "New webhook", "No webhooks yet", "Signed."),
        (
            Row("wh_1", _URL, _ONE, parts, (text("Mirror of the users"),)),
            Row("wh_2", f"https://x.example/{'x' * 480}", _ONE, parts, (text(hostile.name),)),
        ),
        (("Address", None), ("State", None), ("Events", None)),
        notes=(words("There are %(count)s webhooks, the maximum.", count=5),),
        frame=_OF_TEAM.frame,
        app=HEAD,
    )
    lines = [
        _attempt(name, "503", 40, 2, 5_000, hostile.name) for name in ("consent.given", long.name)
    ]
    secret = secret_page(
        CONSOLE.frame, None, _ONE, "https://crm.example.com/…", "whsec_" + "x" * 44, rotated=True
    )
    one = ObjectPage(
        CONSOLE.path,
        "Webhooks",
        _URL,
        state=(badge("Disabled: receiver failed", "alarm"),),
        notes=(Part("words", "Fix it, then enable the webhook.", tone="alarm"),),
        figures=(("Waiting messages", 48_210), ("Failures in a row", 12)),
        facts=(Fact("Events", (code("consent.given"), code("consent.withdrawn"))),),
        actions=tuple(
            Offer(
                slug,
                operation_button.button.title,
                f"{_ONE}/{slug}",
                operation_button.button.danger,
            )
            for slug, operation_button in BUTTONS.by_slug.items()
            if slug != "replay"
        ),
        related=(Related("attempts", "Delivery log", tuple(lines)),),
    )
    enabled = replace(
        one,
        state=(badge("Active"),),
        description="Mirrors the users",
        notes=(),
        actions=tuple(offer for offer in one.actions if offer.title != "Enable webhook"),
        figures=(("Waiting messages", 0), ("Failures in a row", 0)),
        facts=(
            Fact("Events", tuple(code(f"user.{verb}") for verb in ("disabled", "removed"))),
            Fact("Webhook", (Part("copy", "wh_AGkvY2wN8jBqcf0a2kQ3Zw", small="webhook-id"),)),
            Fact("Created", (since(ago(11 * 24 * 3_600)),)),
        ),
        related=(
            Related(
                "attempts",
                "Delivery log",
                (
                    _attempt("user.disabled", "204", 25 * 60, 1, 38, ""),
                    _attempt("user.removed", "204", 19 * 3_600, 2, 41, ""),
                    _attempt("user.removed", "503", 20 * 3_600, 1, 126, "Deployment, try later"),
                ),
            ),
        ),
    )
    return {
        "admin_webhook_secret": secret,
        "developer_webhooks": page,
        "developer_webhooks_none": replace(page, rows=(), notes=(), new_url=f"{of_app}/new"),
        "admin_webhook": one,
        "admin_webhook_enabled": enabled,
        "developer_webhook": replace(one, frame=_OF_TEAM.frame, app=HEAD),
        "developer_webhook_secret": replace(secret, frame=_OF_TEAM.frame, app=HEAD, after=()),
        "developer_webhook_form": _form(of_app),
    }


def _attempt(
    event: str, outcome: str, seconds: int, attempt: int, milliseconds: int, excerpt: str
) -> Line:
    """Return a delivery attempt, some seconds ago."""
    return Line(
        text(event),
        (badge(outcome, "" if outcome.startswith("2") else "alarm"),),
        (
            since(ago(seconds)),
            words("attempt %(number)s, %(count)s ms", number=attempt, count=milliseconds),
            code("ev_AGkvY2wN8jBqcf0a2kQ3Zw"),
            *((text(excerpt),) if excerpt else ()),
        ),
        LineButton(f"{_ONE}/replay?event=ev_1", "Send again", "Send again: %(name)s", "ev_1"),
    )


def _form(address: str) -> InputFormPage:
    return InputFormPage(
        action=f"{address}/new",
        back=address,
        above="Webhooks",
        title="New webhook",
        submit="Create webhook",
        fields=input_fields(WebhookWanted, _OF_TEAM.words, {}, (MetadataError("url", "https"),)),
        frame=_OF_TEAM.frame,
        app=HEAD,
    )
