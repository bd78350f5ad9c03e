"""The people who connected with an app."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class PersonLine:
    """One of them, as the app knows them; `name` and `email` where it may read those."""

    subject: str
    scope: tuple[str, ...]
    since: When
    #: None where the app has no access now and only need not ask again.
    last_used: When | None
    name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class PeoplePage:
    """List them, who came last first."""

    template: ClassVar[str] = "developer/insight/people.html"

    app: AppHead
    lines: tuple[PersonLine, ...]
    total: int
    #: How many used it in the last 30 days.
    active: int
    #: The app knows people by names that no other app knows.
    pairwise: bool = False
    newer: str = ""
    older: str = ""
