"""Events: searched by person, app, name, who did it and when; and taken away."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


@dataclass(frozen=True, slots=True)
class EventRow:
    """One of them; `person` and `app` are whom it concerns, "" for nobody."""

    id: str
    name: str
    when: When
    person: str
    person_url: str
    app: str
    app_url: str
    done_by: str
    #: What else it says: a word and its value.
    said: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EventQuery:
    """What the form asks for, as it was typed; "" for all."""

    person: str = ""
    client: str = ""
    name: str = ""
    by: str = ""
    since: str = ""
    until: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether anything is asked for."""
        return any((self.person, self.client, self.name, self.by, self.since, self.until))


@dataclass(frozen=True, slots=True)
class EventsPage:
    """A page of them, newest first; the form asks by GET."""

    template: ClassVar[str] = "admin/things/log/events.html"

    action: str
    query: EventQuery
    #: Every name there is.
    names: tuple[str, ...]
    listed: tuple[EventRow, ...]
    export_url: str
    more: str = ""
    first: str = ""
    #: What is wrong with a field of the form, by its name.
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ExportPage:
    """The question before a copy is taken away."""

    template: ClassVar[str] = "admin/things/log/export.html"

    action: str
    back: str
    csrf: str
    query: EventQuery
    most: int
