"""The operations of the core, and the table of all operations, which `features` makes."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from valetkey.authorization.operations.client_state import CLIENT_STATE, CREDENTIALS
from valetkey.authorization.operations.clients import CLIENTS
from valetkey.authorization.operations.groups import GROUPS, MEMBERS
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.operations.roles import API_ROLES, ROLES
from valetkey.authorization.operations.server import SERVER
from valetkey.authorization.operations.settings import REGISTRATION, SETTINGS
from valetkey.authorization.operations.tokens import MAKE_USER_TOKEN, TOKENS
from valetkey.authorization.operations.user_access import USER_ACCESS
from valetkey.authorization.operations.users import SET_PASSWORD, USERS

CORE: dict[str, tuple[Operation, ...]] = {
    "people": (*USERS, *USER_ACCESS, *ROLES, *GROUPS, *MEMBERS),
    "clients": (*CLIENTS, *CLIENT_STATE, *CREDENTIALS),
    "apis": API_ROLES,
    "server": (*SERVER, *SETTINGS, *REGISTRATION),
    "tokens": TOKENS,
}
"""The operations by the tag of the OpenAPI document."""

LOCAL = (SET_PASSWORD, MAKE_USER_TOKEN)
"""Operations that only the command line has: no request can run them."""

_TITLES = {"apis": "APIs", "people": "Users and groups"}


def title_of(area: str) -> str:
    """Return the heading above the operations of a tag, in documents."""
    return _TITLES.get(area, area.capitalize())


OPERATIONS = tuple(operation for area in CORE.values() for operation in area)


class Table:
    """Every operation that requests can run, by the tag of the OpenAPI document."""

    def __init__(
        self, tagged: Iterable[tuple[str, Iterable[Operation]]], grant_types: Iterable[str]
    ) -> None:
        """Sort the operations by tag and path; a tag may come more than once.

        `grant_types` are the names of those that clients can have.
        """
        self.grant_types = tuple(grant_types)
        rows = sorted(
            ((tag, operation) for tag, operations in tagged for operation in operations),
            key=lambda row: (row[0], row[1].path),
        )
        self.operations = tuple(operation for _, operation in rows)
        self.areas: Mapping[str, tuple[Operation, ...]] = {
            tag: tuple(operation for _, operation in grouped)
            for tag, grouped in groupby(rows, key=lambda row: row[0])
        }
        parts = (operation.path.rpartition("/{") for operation in self.operations)
        self.object_arguments: Mapping[str, str] = {
            collection: argument.removesuffix("}")
            for collection, _, argument in parts
            if argument.endswith("}")
        }
        """The argument that names one object of a collection, by the collection's path."""
