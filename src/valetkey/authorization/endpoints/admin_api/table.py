"""The table: every operation of the admin API. What is not in it does not exist."""

from valetkey.authorization.endpoints.admin_api.operation import Operation
from valetkey.authorization.endpoints.admin_api.operations.client_secrets import SECRETS
from valetkey.authorization.endpoints.admin_api.operations.clients import CLIENTS
from valetkey.authorization.endpoints.admin_api.operations.events import EVENTS
from valetkey.authorization.endpoints.admin_api.operations.people import PEOPLE
from valetkey.authorization.endpoints.admin_api.operations.server import SERVER
from valetkey.authorization.endpoints.admin_api.operations.tokens import TOKENS

AREAS: dict[str, tuple[Operation, ...]] = {
    "people": PEOPLE,
    "clients": (*CLIENTS, *SECRETS),
    "events": EVENTS,
    "server": SERVER,
    "tokens": TOKENS,
}
"""By the tag of the document."""

OPERATIONS = tuple(operation for area in AREAS.values() for operation in area)
