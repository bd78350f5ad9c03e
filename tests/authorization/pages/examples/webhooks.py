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
from valetkey.authorization.webhooks.model import WebhookWanted
from valetkey.authorization.webhooks.pages import (
    BUTTONS,
    CONSOLE,
    AttemptLine,
    WebhookPage,
    WebhookRow,
    WebhooksPage,
    of_team,
    secret_page,
)
from valetkey.kernel.replace import replace

_OF_TEAM = of_team(FRAME)
_ONE = "/admin/webhooks/wh_1"
_ROW = WebhookRow(
    "https://crm.example.com/hooks/users",
    _ONE,
    "Mirror of the users",
    ("user.disabled", "user.removed"),
    "on",
)
_ATTEMPT = AttemptLine(
    ago(40),
    "user.disabled",
    "ev_AGkvY2wN8jBqcf0a2kQ3Zw",
    1,
    "204",
    accepted=True,
    milliseconds=38,
    excerpt="",
    replay_url=f"{_ONE}/replay?event=ev_1",
)
_PAGE = WebhookPage(
    frame=CONSOLE.frame,
    app=None,
    back=CONSOLE.path,
    row=_ROW,
    webhook_id="wh_AGkvY2wN8jBqcf0a2kQ3Zw",
    because="",
    created=ago(900_000),
    disabled=None,
    failing=None,
    failures=0,
    waiting=0,
    ways=tuple(
        Offer(slug, each.button.title, f"{_ONE}/{slug}", each.button.danger)
        for slug, each in BUTTONS.by_slug.items()
        if slug not in {"enable", "replay"}
    ),
    edit_url=f"{_ONE}/edit",
    attempts=(
        _ATTEMPT,
        replace(
            _ATTEMPT,
            outcome="503",
            accepted=False,
            milliseconds=5_000,
            excerpt="upstream timed out",
        ),
        replace(_ATTEMPT, name="webhook.test", replay_url=""),
    ),
    done=BUTTONS.done("test"),
)


def webhooks_examples(long: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """All of them."""
    rows = (
        _ROW,
        replace(_ROW, url="https://siem.example.com/", description="", events=(), state="failing"),
        replace(_ROW, url="https://old.example.com/…", state="fault"),
        replace(_ROW, state="disabled"),
    )
    page = WebhooksPage(
        CONSOLE.frame, None, rows, 20, full=False, new_url="/admin/webhooks/new", deleted=False
    )
    empty = replace(page, listed=(), deleted=True)
    failing = replace(
        _PAGE,
        row=replace(_ROW, events=(), state="failing"),
        failing=ago(5_000),
        failures=12,
        waiting=48_210,
        done="",
    )
    of_app = _OF_TEAM.path.replace("{client_id}", HEAD.client_id)
    portal = replace(
        failing,
        frame=_OF_TEAM.frame,
        app=HEAD,
        back=of_app,
        row=replace(_ROW, state="fault", events=("consent.withdrawn",)),
        because="undelivered",
        disabled=ago(60),
    )
    secret = secret_page(
        CONSOLE.frame, None, _ONE, "https://crm.example.com/…", "whsec_" + "x" * 44, rotated=True
    )
    return {
        "admin_webhooks": page,
        "admin_webhooks_none": empty,
        "admin_webhooks_full": replace(page, full=True, new_url=""),
        "admin_webhook": _PAGE,
        "admin_webhook_failing": failing,
        "admin_webhook_hostile": replace(
            _PAGE,
            row=replace(_ROW, url=f"https://x.example/{'x' * 480}", description=hostile.name),
            attempts=(replace(_ATTEMPT, name=long.name, excerpt=hostile.name),),
        ),
        "admin_webhook_gone": replace(failing, because="gone", attempts=(), ways=(), edit_url=""),
        "admin_webhook_secret": secret,
        "developer_webhooks": replace(
            page, frame=_OF_TEAM.frame, app=HEAD, new_url=f"{of_app}/new", listed=rows[:1]
        ),
        "developer_webhooks_none": replace(empty, frame=_OF_TEAM.frame, app=HEAD, deleted=False),
        "developer_webhook_disabled": portal,
        "developer_webhook_full": replace(portal, because="full"),
        "developer_webhook_operator": replace(portal, because="operator"),
        "developer_webhook_secret": replace(secret, frame=_OF_TEAM.frame, app=HEAD, after=()),
        "developer_webhook_form": _form(of_app),
    }


def _form(place: str) -> InputFormPage:
    return InputFormPage(
        f"{place}/new",
        place,
        "Webhooks",
        "New webhook",
        "Create webhook",
        input_fields(WebhookWanted, _OF_TEAM.words, {}, (MetadataError("url", "https"),)),
        frame=_OF_TEAM.frame,
        app=HEAD,
    )
