"""What those who run this server do with it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByUser, Event


@dataclass(frozen=True, slots=True)
class ApiTokenIssued(Event):
    """A token of the admin API was made in the name of this person, for so much and so long."""

    name: ClassVar[str] = "api_token.issued"
    uid: int
    token_id: str
    permissions: tuple[str, ...]
    expires_at: int


@dataclass(frozen=True, slots=True)
class ApiTokenEnded(ByUser):
    """A token of the admin API was ended before its time."""

    name: ClassVar[str] = "api_token.ended"
    uid: int
    token_id: str


@dataclass(frozen=True, slots=True)
class EventsExported(Event):
    """Somebody took a copy of events away, in this format."""

    name: ClassVar[str] = "events.exported"
    format: str


@dataclass(frozen=True, slots=True)
class BrandChanged(Event):
    """A part of the brand, such as `name` or `accent`, is another than before."""

    name: ClassVar[str] = "brand.changed"
    field: str
    before: str
    after: str
