"""Events of APIs and their credentials."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class ApiRegistered(Event):
    """An API was declared."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiChanged(Event):
    """An API was changed; `fields` names its changed fields."""

    api_id: str
    identifier: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiDisabled(Event):
    """An API was disabled; codes, tokens and grants for it ended."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiEnabled(Event):
    """An API was enabled; what had ended stays ended."""

    api_id: str
    identifier: str


@dataclass(frozen=True, slots=True)
class ApiRemoved(Event):
    """An API was deleted; codes, tokens and grants for it ended."""

    api_id: str
    identifier: str
