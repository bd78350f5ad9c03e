"""/developer/apps/{client_id}/requests: the refused requests of an app and samples of others."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.developer.requests import (
    NEWEST,
    AppRequests,
    Cursor,
    codes_of,
    requests_of,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.page import AnyPage, Outcome, Page, Show
from valetkey.authorization.storage.register.request_samples import StoredSample
from valetkey.authorization.storage.transaction import Store
from valetkey.database.decisions import Decision
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.words import translatable

REQUESTS = f"{APP}/requests"
SHOWN = 25
"""Requests on a page."""

_PLACE = re.compile(r"([1-9][0-9]{0,11})\.(VK-[0-9A-Z-]{14}|[0-9]{16})", re.ASCII)
_CODES = frozenset(ErrorCode)


class Shown(StrEnum):
    """Which requests the page lists."""

    ALL = ""
    FAILED = "failed"
    SUCCESSFUL = "successful"


class RequestLine(Struct, frozen=True):
    """One request: refused if it has a `reference`, else successful.

    `description` is the fixed text of its error.
    """

    when: When
    endpoint: str
    reference: str = ""
    code: str = ""
    description: str = ""
    method: str = ""
    status: int = 0
    milliseconds: int = 0
    grant_type: str = ""
    scope: str = ""
    request_id: str = ""


class RequestsPage(Struct, frozen=True):
    """The context of requests.html, newest first. `code` filters by an error code, "" for all."""

    template: ClassVar[str] = "developer/monitoring/requests.html"

    app: AppHead
    lines: tuple[RequestLine, ...]
    #: The error codes that can be chosen.
    codes: Sequence[str]
    #: `failed`, `successful`, or "" for all.
    shown: str = ""
    code: str = ""
    #: The seconds for which one successful request of a kind is recorded, 0 for none.
    sampled_every: int = 60
    #: The addresses of the pages beside this one, "" where there is none.
    newer: str = ""
    older: str = ""


class Requests(Struct, frozen=True):
    """List the requests of an app."""

    store: Store
    sampled_every: int

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("Requests")
        return (Page(REQUESTS, member_of_app, self.show, title=title, nav=True),)

    async def show(self, request: AppRequest) -> Outcome:
        """Show a page of the list; `before` is the last entry of the previous page.

        `show` filters by outcome, `code` by error code.
        """
        client_id, now, head = request.client.id, request.now, request.head
        code, before = request.query.get("code") or "", request.query.get("before")
        named = Shown.FAILED if code else request.query.get("show") or ""
        if named not in tuple(Shown) or (code and code not in _CODES):
            raise unknown_place()
        shown = Shown(named)
        after = NEWEST if before is None else _parse(before)
        wanted = AppRequests(
            refused=shown is not Shown.SUCCESSFUL, successful=shown is not Shown.FAILED, code=code
        )
        found, codes = await self.store.scan(
            lambda tx: (
                requests_of(tx, client_id, after, SHOWN + 1, wanted),
                codes_of(tx, client_id, now),
            )
        )
        return Show(
            RequestsPage(
                head,
                tuple(_line(each, now) for each in found[:SHOWN]),
                codes=codes,
                shown=shown.value,
                code=code,
                sampled_every=self.sampled_every,
                newer=_address(head, shown, code) if before is not None else "",
                older=_address(head, shown, code, Cursor.of(found[SHOWN - 1]))
                if len(found) > SHOWN
                else "",
            )
        )


def refused_line(decision: Decision, now: Instant) -> RequestLine:
    """Return a refused request as pages show it."""
    return RequestLine(
        When(decision.at, now),
        decision.endpoint,
        decision.reference,
        decision.code,
        decision.description,
    )


def _line(found: Decision | StoredSample, now: Instant) -> RequestLine:
    if isinstance(found, Decision):
        return refused_line(found, now)
    return RequestLine(
        When(found.at, now),
        found.endpoint,
        method=found.method,
        status=found.status,
        milliseconds=found.milliseconds,
        grant_type=found.grant_type,
        scope=found.scope,
        request_id=found.request_id,
    )


def _address(head: AppHead, shown: Shown, code: str, last: Cursor | None = None) -> str:
    said = [("code", code)] if code else [("show", shown.value)] if shown else []
    if last is not None:
        said.append(("before", f"{last.at}.{last.reference}"))
    place = head.at("requests")
    return f"{place}?{urlencode(said)}" if said else place


def _parse(before: str) -> Cursor:
    match = _PLACE.fullmatch(before)
    if match is None:
        raise unknown_place()
    return Cursor(Instant(int(match[1])), match[2])


def unknown_place() -> Refused:
    """The refusal for a position in a list that no page links to."""
    return Refused(
        Refusal(
            ErrorCode.INVALID_REQUEST,
            "this address is invalid; open the page of your app again",
            "developer.place",
        )
    )
