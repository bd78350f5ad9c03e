"""The table: every operation of administration. What is not in it does not exist."""

from valetkey.authorization.operations.client_credentials import CREDENTIALS
from valetkey.authorization.operations.clients import CLIENTS
from valetkey.authorization.operations.events import EVENTS
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.operations.roles import ROLES
from valetkey.authorization.operations.server import SERVER
from valetkey.authorization.operations.tokens import TOKENS
from valetkey.authorization.operations.user_access import USER_ACCESS
from valetkey.authorization.operations.users import USERS

AREAS: dict[str, tuple[Operation, ...]] = {
    "people": (*USERS, *USER_ACCESS, *ROLES),
    "clients": (*CLIENTS, *CREDENTIALS),
    "events": EVENTS,
    "server": SERVER,
    "tokens": TOKENS,
}
"""By the tag of the OpenAPI document."""

OPERATIONS = tuple(operation for area in AREAS.values() for operation in area)
