"""Services behind the commands: the same operations and rules as for site and API."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from valetkey.authorization.actions.admin.search import resolve_users, summary
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.model.account.group import Group
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli import say
from valetkey.cli.register.store import OpenedStore
from valetkey.cli.say import Exit
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Prefix, Secret, fresh_secret
from valetkey.kernel.url import canonical

T = TypeVar("T")
CHANNEL = "cli"
_PAGE = 500


def registrar(opened: OpenedStore) -> Registrar:
    """Return the registrar of clients."""
    return opened.foundation.registrar(CHANNEL)


def accounts(opened: OpenedStore) -> Accounts:
    """Return the registrar of accounts."""
    return opened.foundation.accounts()


def fresh_client_secret(opened: OpenedStore) -> Secret:
    """Generate a client secret."""
    return fresh_secret(Prefix.CLIENT_SECRET, opened.runtime.random)


def refused(faults: Iterable[MetadataError]) -> OperatorError:
    """Return an OperatorError with every error, each with the name of its field."""
    lines = [f"{fault.field}: {fault.detail}" for fault in faults]
    if len(lines) == 1:
        return OperatorError(lines[0])
    return OperatorError(f"{len(lines)} errors to fix:" + "".join(f"\n  {x}" for x in lines))


async def chosen_user(opened: OpenedStore, name: str) -> User:
    """Return the account that the name identifies, after printing which one it is.

    `name` is `uid:1002`, `name:ada`, `email:ada@example.com` or a bare word. Raises OperatorError
    if there is none, or if a bare word could be several accounts.
    """
    user = await opened.store.read(lambda tx: user_named(tx, name))
    say.note(f"Account: {summary(user)}")
    return user


def user_named(tx: Transaction, name: str) -> User:
    """Return the account that the name identifies. Raises OperatorError as `chosen_user` does."""
    found = resolve_users(tx, name)
    if len(found) > 1:
        lines = "".join(f"\n  {summary(user)}" for user in found)
        raise OperatorError(f"{name!r} could be {len(found)} accounts; say which:{lines}")
    if not found:
        raise OperatorError(f"there is no account {name!r}; see: valetkey user list")
    return found[0]


def client_named(tx: Transaction, client_id: str) -> Client:
    """Return the client with this id. Raises OperatorError if there is none."""
    found = tx.clients.find(client_id)
    if found is None:
        raise OperatorError(f"there is no client {client_id!r}; see: valetkey client list")
    return found


def every_client(tx: Transaction) -> Sequence[Client]:
    """Return all clients in the order of their ids."""
    return _every(lambda last: tx.clients.page(last.id if last else "", _PAGE))


def every_api(tx: Transaction) -> Sequence[Api]:
    """Return all APIs in the order of their identifiers."""
    return _every(lambda last: tx.apis.page(canonical(last.identifier) if last else "", _PAGE))


def every_group(tx: Transaction) -> Sequence[Group]:
    """Return all groups in the order of their names."""
    return _every(lambda last: tx.groups.list(last.name if last else "", _PAGE))


def every_user(tx: Transaction) -> Sequence[User]:
    """Return all accounts in the order of their uids."""
    return _every(lambda last: tx.users.page(last.uid if last else 0, _PAGE))


def confirm(question: str, *, yes: bool) -> None:
    """Ask the operator to confirm: on a terminal interactively, otherwise by `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        say.note(question)
        raise OperatorError("nothing was changed: add --yes to run without a terminal")
    if not click.confirm(question, default=False, err=True):
        say.note("Nothing was changed.")
        raise click.exceptions.Exit(Exit.FAILED)


def confirm_by_typing(question: str, word: str) -> None:
    """Ask the operator on a terminal to type `word`; elsewhere refuse and name `--yes`."""
    if not sys.stdin.isatty():
        say.note(question)
        raise OperatorError("nothing was changed: add --yes to run without a terminal")
    if click.prompt(question, default="", show_default=False, err=True).strip() != word:
        say.note("Nothing was changed.")
        raise click.exceptions.Exit(Exit.FAILED)


def _every(page: Callable[[T | None], Sequence[T]]) -> Sequence[T]:
    found: list[T] = []
    while more := page(found[-1] if found else None):
        found += more
    return found
