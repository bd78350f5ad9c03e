"""Requests that failed: the list, and everything about one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.insight.failures.advice import Advice
from valetkey.authorization.site.errors.text import ErrorText


@dataclass(frozen=True, slots=True)
class FailureLine:
    """One refusal in the list. `description` is one of the fixed texts of the refusals."""

    reference: str
    when: When
    endpoint: str
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class FailuresPage:
    """List them, newest first. `code` is the error that is looked for, "" for all."""

    template: ClassVar[str] = "developer/insight/failures/failures.html"

    app: AppHead
    lines: tuple[FailureLine, ...]
    #: The errors one can look for.
    codes: Sequence[str]
    code: str = ""
    #: The addresses of the pages beside this one, "" where there is none.
    newer: str = ""
    older: str = ""


@dataclass(frozen=True, slots=True)
class FailurePage:
    """Everything about one refusal. `expected` and `received` may hold what strangers sent."""

    template: ClassVar[str] = "developer/insight/failures/failure.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    line: FailureLine
    status: int
    check: str
    expected: str
    received: str
    text: ErrorText
    advice: Advice | None
    #: Anybody could have sent it in the name of the app.
    by_anybody: bool
    #: The record is deleted then.
    until: When
    #: The page of the portal on which to fix it, "" for none.
    fixed_at: str = ""
    #: Where the missing redirect URI can be added, "" for other refusals.
    add_redirect_uri: str = ""


@dataclass(frozen=True, slots=True)
class AddRedirectUriPage:
    """Ask before the address that a request named becomes one of the app's. Posts `csrf`.

    With `strange`, none of the app's addresses is on that server.
    """

    template: ClassVar[str] = "developer/insight/failures/add.html"

    app: AppHead
    action: str
    csrf: str
    reference: str
    redirect_uri: str
    place: str
    registered: tuple[str, ...]
    strange: bool
