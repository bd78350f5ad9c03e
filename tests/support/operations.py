"""Run operations of administration on a server's database, as its operator does."""

from valetkey.authorization.operations.operation import Operation
from valetkey.cli.operations.perform import perform
from valetkey.cli.register.store import with_store
from valetkey.config.settings import Settings


def run_operation(
    settings: Settings, operation: Operation, body: object = None, **arguments: object
) -> object:
    """Run an operation with these arguments of its path and return its value."""
    path = {name: str(value) for name, value in arguments.items()}
    return with_store(settings, lambda opened: perform(opened, operation, path, body))
