"""Contexts of the pages about webhooks."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.webhook import TEST, WebhookAttempt
from valetkey.authorization.site.admin.administrator import with_query
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.developer.app import AppHead
from valetkey.authorization.site.shown_once import (
    COPIED,
    COPY_NOW,
    COPY_THE_SECRET,
    NEW_SECRET,
    NewSecretPage,
    Shown,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable


class WebhookRow(Struct, frozen=True):
    """A webhook in the list. `state` is on, failing, disabled or fault."""

    url: str
    address: str
    description: str
    events: tuple[str, ...]
    state: str


class WebhooksPage(Struct, frozen=True):
    """The list; `new_url` is "" if the role may not add one, or at the maximum number."""

    template: ClassVar[str] = "webhooks/webhooks.html"

    frame: str
    app: AppHead | None
    listed: tuple[WebhookRow, ...]
    most: int
    full: bool
    new_url: str
    deleted: bool


class AttemptLine(Struct, frozen=True):
    """An attempt; `replay_url` is "" if the user may not send it again."""

    at: When
    name: str
    event_id: str
    attempt: int
    outcome: str
    accepted: bool
    milliseconds: int
    excerpt: str
    replay_url: str


class WebhookPage(Struct, frozen=True):
    """One webhook; `because` is why it is disabled."""

    template: ClassVar[str] = "webhooks/webhook.html"

    frame: str
    app: AppHead | None
    back: str
    row: WebhookRow
    webhook_id: str
    because: str
    created: When
    disabled: When | None
    failing: When | None
    failures: int
    waiting: int
    ways: tuple[Offer, ...]
    edit_url: str
    attempts: tuple[AttemptLine, ...]
    done: str = ""


def secret_page(
    frame: str, app: AppHead | None, back: str, name: str, secret: str, *, rotated: bool
) -> NewSecretPage:
    """Return the page with a new signing secret."""
    return NewSecretPage(
        title=NEW_SECRET,
        back=back,
        above=name,
        copied=(Shown("webhook-secret", secret, COPY_THE_SECRET),),
        before=(COPY_NOW, _VERIFIES),
        after=(_PREVIOUS,) if rotated else (),
        done=COPIED,
        frame=frame,
        app=app,
    )


_VERIFIES = translatable(
    "The receiver verifies the signature of each message with it, as Standard Webhooks describes."
)
_PREVIOUS = translatable(
    "For a day, messages are signed with the previous secret too: give the new one to the receiver"
    " before then."
)


def attempt_line(
    attempt: WebhookAttempt, now: Instant, replay_url: str, *, whole: bool
) -> AttemptLine:
    """Return an attempt as a line; without the response unless `whole`."""
    again = with_query(replay_url, {"event": attempt.event_id}) if replay_url else ""
    return AttemptLine(
        When(attempt.at, now),
        attempt.name,
        attempt.event_id,
        attempt.attempt,
        attempt.outcome,
        attempt.outcome.startswith("2"),
        attempt.milliseconds,
        attempt.excerpt if whole else "",
        "" if attempt.name == TEST else again,
    )
