"""Events of declared attributes of accounts."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class AttributeDeclared(Event):
    """An attribute of accounts was declared, or its declaration changed."""

    attribute: str


@dataclass(frozen=True, slots=True)
class AttributeRemoved(Event):
    """An attribute of accounts is no longer declared; its values are no longer shown."""

    attribute: str
