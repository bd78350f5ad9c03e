"""Examples of the pages of administration about events and programs."""

from collections.abc import Mapping

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.features import KINDS, TABLE
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.event.accounts import SessionStarted
from valetkey.authorization.model.event.grants import ClientChanged
from valetkey.authorization.model.user import ApiToken, Uid
from valetkey.authorization.operations.tokens import END_TOKEN, TokenWanted
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.events.events import (
    EventQuery,
    EventsPage,
    ExportPage,
    RefusalFacts,
)
from valetkey.authorization.site.admin.events.lines import NONE, ActorShown, EventRow, Link
from valetkey.authorization.site.admin.input_fields import Faults, input_fields
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.objects import ObjectList
from valetkey.authorization.site.admin.saved_filters import SavedLine, SavedPart
from valetkey.authorization.site.admin.server.api import explained, operation_page
from valetkey.authorization.site.admin.server.tokens import (
    LIST,
    PERMISSION_WORDS,
    WORDS,
    token_made_page,
    token_page,
    token_row,
)
from valetkey.authorization.site.page import Figure, Paging
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_TOKEN = "vka_0PZbgkQ7sXyT3mVw9LrE1aNcHfJ5uD8oKi2RtYxWqBvGp4M"
_CLIENT = "/admin/clients/app_7f3k9qxmB2"


CREATE = next(operation for operation in TABLE.operations if operation.id == "create_user")


def _ago(seconds: int) -> When:
    return When(Instant(_NOW - seconds), _NOW)


def log_examples(hostile: AskingApp, long: AskingApp) -> Mapping[str, PageContext]:
    """Events."""
    ada = Link("ada", "/admin/users/1001")
    row = EventRow(
        "ev_1",
        "session.started",
        _ago(50),
        SessionStarted.sentence,
        {"methods": "pwd, otp"},
        ada,
        NONE,
        ActorShown("self", ada),
        (("id", "ev_1"), ("uid", "1001"), ("methods", "pwd, otp"), ("done_by", "user 1001")),
        "203.0.113.7",
    )
    changed = EventRow(
        "ev_2",
        "client.changed",
        _ago(5_000),
        ClientChanged.sentence,
        {"fields": "name"},
        NONE,
        Link(hostile.name, _CLIENT),
        ActorShown("user", ada, "at_4fGh2kLmNpQrStUvWxYz01"),
        (
            ("id", "ev_2"),
            ("client_id", "app_7f3k9qxmB2"),
            ("fields", "name"),
            ("before", hostile.name),
            ("after", long.name),
            ("done_by", "user 1001 token at_4fGh2kLmNpQrStUvWxYz01"),
        ),
    )
    renamed = replace(changed, app=Link("Notes Printer", _CLIENT))
    page = EventsPage(
        "/admin/events",
        EventQuery(),
        tuple(KINDS),
        (row, changed),
        "/admin/events/export",
    )
    return {
        "admin_events": page,
        "admin_events_refusal": replace(
            page,
            query=EventQuery(person="VK-7F3K-9QXM-2RTD"),
            listed=(),
            refusal=RefusalFacts(
                *("VK-7F3K-9QXM-2RTD", row.when, "/oauth/authorize", "invalid_request"),
                *("redirect_uri.unknown", "redirect_uri is not registered for this client"),
                *("'https://app.example/cb'", "'https://app.example/other'", "web1"),
                *("/admin/apps/web1", "rq_3f"),
            ),
        ),
        "admin_events_many": replace(
            page,
            query=EventQuery(person="ada", since="2027-01-01"),
            listed=tuple(
                replace((row, renamed, row)[number % 3], id=f"ev_{number}") for number in range(24)
            ),
            paging=Paging("/admin/events", "/admin/events", "/admin/events?after=1.x", Figure(48)),
            saved=SavedPart(
                "events",
                "person=ada&since=2027-01-01",
                (SavedLine("Failed sign-ins", "/admin/events?name=sign_in.failed"),),
            ),
        ),
        "admin_events_wrong": replace(
            page,
            query=EventQuery(person="nobody", since="yesterday", name="client.vanished"),
            listed=(),
            export_url="",
            faults=(
                ("person", "No user has this user ID, username or email address."),
                ("name", "No event has this name. Choose one from the list."),
                ("since", "Enter the date as 2026-11-21."),
            ),
        ),
        "admin_events_none": replace(page, listed=(), export_url=""),
        "admin_export": ExportPage(
            "/admin/events/export", "/admin/events", EventQuery(by="cli"), 100_000
        ),
    }


def programs_examples(hostile: AskingApp) -> Mapping[str, PageContext]:
    """Tokens, and the page of the API."""
    token = ApiToken(
        "at_1",
        Uid(1001),
        "Nightly report",
        frozenset({"read"}),
        Instant(_NOW - 40_000),
        Instant(_NOW + 7_776_000),
        Instant(_NOW - 300),
    )
    odd = replace(
        token,
        name=hostile.name,
        permissions=frozenset(permission.value for permission in Permission),
        last_used_at=None,
    )
    ended = replace(token, name="Old import", ended_at=Instant(_NOW - 60))
    revoke = tuple(
        Offer(button.slug, button.title, "/admin/tokens/at_1/end", button.danger, button.text)
        for button in END_TOKEN.buttons
    )

    def form(values: Mapping[str, str], faults: Faults = ()) -> InputFormPage:
        choices = tuple((permission.value, words) for permission, words in PERMISSION_WORDS.items())
        fields = input_fields(
            TokenWanted,
            WORDS,
            values,
            faults,
            choices={"permissions": choices},
            durations=("lifetime",),
        )
        return InputFormPage(
            action="/admin/tokens/new",
            back=LIST.address,
            above="API tokens",
            title="New token",
            submit="Create token",
            fields=fields,
        )

    page = ObjectList(
        LIST.address,
        LIST.words,
        (token_row(token, "ada", _NOW),),
        tuple((title, None) for title, _ in LIST.columns),
        new_url=LIST.new_url,
        links=(("api", "Admin API", "/admin/api/v1/"),),
    )
    return {
        "admin_tokens": page,
        "admin_tokens_many": replace(
            page,
            rows=tuple(token_row(api_token, "ada", _NOW) for api_token in (token, odd, ended)),
            paging=Paging(next="/admin/tokens?after=1.x", total=Figure(53)),
            done="Token revoked.",
        ),
        "admin_tokens_none": replace(page, rows=()),
        "admin_tokens_new": form({"lifetime": "7776000", "permissions": "read"}),
        "admin_tokens_wrong": form(
            {"name": hostile.name, "lifetime": "77760000"},
            (
                MetadataError("name", ""),
                MetadataError("lifetime", ""),
                input_fault("permissions", "length.none"),
            ),
        ),
        "admin_token": token_page(token, "ada", _NOW, revoke),
        "admin_token_ended": token_page(replace(odd, ended_at=_NOW), "", _NOW),
        "admin_tokens_made": token_made_page(
            "Nightly report",
            _TOKEN,
            "2027-04-15 08:00:00 UTC",
            "https://auth.example",
        ),
        "admin_api": explained("https://auth.example", TABLE),
        "admin_api_operation": operation_page("https://auth.example", CREATE),
    }
