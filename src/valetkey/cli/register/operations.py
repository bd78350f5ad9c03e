"""Run operations of administration as the operator of the command line."""

from collections.abc import Mapping
from urllib.parse import quote

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.operations.operation import InvalidInput, Operation, Result, call_of
from valetkey.authorization.operations.records import Done
from valetkey.cli.register.keeper import found_user, refused, the_client
from valetkey.cli.register.store import Opened, with_store
from valetkey.config.settings import Settings


async def perform(
    opened: Opened, operation: Operation, arguments: Mapping[str, str], body: object = None
) -> object:
    """Run an operation and return its value: for `Done`, whether something changed.

    Raises Mistake for invalid input, and Refused.
    """
    path = {name: quote(value, safe="") for name, value in arguments.items()}
    call = call_of(opened.foundation.services, operation, opened.operator, opened.now, path, body)
    try:
        result = await operation.run(call)
    except InvalidInput as invalid:
        raise refused(invalid.faults) from None
    value = result.value if isinstance(result, Result) else None
    return value.changed if isinstance(value, Done) else value


def on_user(
    settings: Settings,
    operation: Operation,
    user: str | User,
    arguments: Mapping[str, str] | None = None,
    body: object = None,
) -> tuple[User, object]:
    """Run an operation on a user, after saying which account it is; return both."""

    async def run(opened: Opened) -> tuple[User, object]:
        found = user if isinstance(user, User) else await found_user(opened, user)
        path = {"uid": str(found.uid), **(arguments or {})}
        return found, await perform(opened, operation, path, body)

    return with_store(settings, run)


def on_client(
    settings: Settings,
    operation: Operation,
    client_id: str,
    arguments: Mapping[str, str] | None = None,
    body: object = None,
) -> tuple[Client, object]:
    """Run an operation on a client; return the client as it was, and the value."""

    async def run(opened: Opened) -> tuple[Client, object]:
        client = await opened.store.read(lambda tx: the_client(tx, client_id))
        path = {"client_id": client_id, **(arguments or {})}
        return client, await perform(opened, operation, path, body)

    return with_store(settings, run)
