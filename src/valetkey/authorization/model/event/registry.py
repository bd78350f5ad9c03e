"""All events, in the order of their reference page."""

from types import ModuleType

from valetkey.authorization.model.event import (
    administration,
    clients,
    grants,
    groups,
    people,
    sessions,
)
from valetkey.authorization.model.event.event import Event


def _defined_in(module: ModuleType) -> tuple[type[Event], ...]:
    return tuple(
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Event) and each.__module__ == module.__name__
    )


_MODULES = (clients, people, sessions, grants, groups, administration)

EVENTS: tuple[type[Event], ...] = tuple(
    event for module in _MODULES for event in _defined_in(module)
)
