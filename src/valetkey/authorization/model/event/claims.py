"""Events of declared claims and of roles at APIs."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class ClaimDeclared(Event):
    """A claim of tokens was declared, or its declaration changed."""

    claim: str
    source: str


@dataclass(frozen=True, slots=True)
class ClaimRemoved(Event):
    """A claim of tokens is no longer declared."""

    claim: str


@dataclass(frozen=True, slots=True)
class ApiRoleAssigned(Event):
    """A user got a role at an API."""

    uid: int
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class ApiRoleWithdrawn(Event):
    """A user has a role at an API no more, except by a group."""

    uid: int
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class GroupApiRoleAssigned(Event):
    """The members of a group got a role at an API."""

    group: str
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class GroupApiRoleWithdrawn(Event):
    """The members of a group have a role at an API no more, except by other means."""

    group: str
    api_id: str
    role: str
