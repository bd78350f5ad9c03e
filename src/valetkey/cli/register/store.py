"""The store on the command line, with its keys: keyring and credential.

Access to these files permits everything: the command line is the operator's, not a user's.
"""

import asyncio
import os
import pwd
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.search import resolve_users, summary
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.inspection.records import count_opened
from valetkey.authorization.actions.records import keep_registered
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.app.foundation import SCHEMA, Foundation, build_foundation
from valetkey.authorization.app.settings import with_stored
from valetkey.authorization.authentication.factors import authenticator_place
from valetkey.authorization.feature import Reseal
from valetkey.authorization.features import FEATURES
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.administration import KeyringRotated
from valetkey.authorization.model.event.event import DoneBy, by_cli
from valetkey.authorization.model.user import Group, User
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import ActorStore, Transaction
from valetkey.authorization.tokens.client_keys import secret_context
from valetkey.authorization.tokens.signing_keys import binding
from valetkey.cli import say
from valetkey.cli.say import Exit
from valetkey.config.installation import connect_to, open_known, open_tested, require_file
from valetkey.config.paths import credential_path, database_file, keyring_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Engine
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.keyring import Keyring, create_or_read_secret_file, replace_secret_file
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Prefix, Secret, fresh_secret
from valetkey.kernel.url import canonical
from valetkey.resource.scopes import scopes_of

_PLAIN = re.compile(r"[A-Za-z0-9._@+-]{1,64}", re.ASCII)
T = TypeVar("T")

SCHEMAS = {
    "authorization": SCHEMA,
    "resource": "valetkey.resource.storage.schema",
}
"""The package with each server's schema."""


def operator() -> str:
    """Return the system account of this process, such as `root`, or its number without a name.

    If the terminal's login is another one, both: `root login ada`. It tells operators apart; it
    proves nothing, because they can write to the database themselves.
    """
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = ""
    name = name if _PLAIN.fullmatch(name) else str(number)
    try:
        login = os.getlogin()
    except OSError:
        # No terminal: a unit, a container, a job.
        return name
    return f"{name} login {login}" if login != name and _PLAIN.fullmatch(login) else name


class OpenedStore(Struct, frozen=True):
    """The authorization server's database and keys, at one point in time."""

    foundation: Foundation
    now: Instant
    operator: CommandLine

    @property
    def settings(self) -> Settings:
        """The settings of the installation."""
        return self.foundation.settings

    @property
    def store(self) -> ActorStore:
        """Return the store of the authorization server, acting as the operator."""
        return self.foundation.store.acting(self.operator.done_by)

    @property
    def keyring(self) -> Keyring:
        """The keys that encrypt and fingerprint."""
        return self.foundation.keyring

    @property
    def runtime(self) -> Runtime:
        """The clock and the source of randomness."""
        return self.foundation.runtime


def with_store(
    settings: Settings,
    work: Callable[[OpenedStore], Awaitable[T]],
    *,
    begins: bool = False,
    acts: Callable[[str], DoneBy] = by_cli,
) -> T:
    """Run `work` on the database and return its result.

    Database and keyring are created only if the command `begins` an installation. The actor of
    events is the operator; `acts` names the tool.

    Raises OperatorError if one of them is missing or the database is not the one that its server
    knows, and DatabaseUnavailable.
    """
    if not begins and settings.source.file is None:
        file = database_file(settings, settings.authorization)
        if file is not None and not file.exists():
            raise OperatorError(
                f"there is no valetkey.toml here, and no database at {file}; name the "
                "configuration with --config FILE, or begin a server here with `valetkey serve` or "
                "`valetkey apply`"
            )
    settings = _addressed(settings)

    async def run() -> T:
        foundation = build_foundation(settings, SYSTEM, scopes_of(settings), begins=begins)
        done_by = acts(operator())
        try:
            server, schema = settings.authorization, SCHEMAS["authorization"]
            engine = foundation.store.engine
            # A command that may create the tables tests what they are to be stored in.
            opens = open_tested if begins else open_known
            await opens(settings, server, engine, schema, SYSTEM, begins=begins)
            foundation = await with_stored(foundation)
            foundation = replace(foundation, store=foundation.store.acting(done_by))
            # A keyring that is only tried is checked by the caller.
            if settings.authorization.keyring_text is None:
                await foundation.require_own_keyring()
            return await work(OpenedStore(foundation, SYSTEM.now(), CommandLine(done_by)))
        finally:
            await foundation.close()

    return asyncio.run(run())


def foundation_without_setup(settings: Settings) -> Foundation:
    """Return the foundation on the existing database; the caller closes its engine.

    Raises OperatorError where database or keyring is missing.
    """
    foundation = build_foundation(_addressed(settings), SYSTEM, scopes_of(settings), begins=False)
    return replace(foundation, store=foundation.store.acting(by_cli(operator())))


def open_database(settings: Settings, server: ServerSettings, *, begins: bool = False) -> Engine:
    """Open the server's database, with one connection on PostgreSQL. The caller closes it."""
    return connect_to(settings, server, pool_size=1, begins=begins)


def is_begun(settings: Settings, server: ServerSettings) -> bool:
    """Return whether the database may exist; only an SQLite file can be checked without asking.

    Raises OperatorError where a file is missing that the server knows.
    """
    require_file(settings, server, begins=True)
    file = database_file(settings, server)
    return file is None or file.exists()


def _addressed(settings: Settings) -> Settings:
    """Return the settings with port 0 replaced by any port: it is chosen when the servers start."""
    authorization, resource = settings.authorization, settings.resource
    return replace(
        settings,
        authorization=replace(authorization, url=authorization.url.removesuffix(":0")),
        resource=replace(resource, url=resource.url.removesuffix(":0")),
    )


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
    users = resolve_users(tx, name)
    if len(users) > 1:
        lines = "".join(f"\n  {summary(user)}" for user in users)
        raise OperatorError(f"{name!r} could be {len(users)} accounts; say which:{lines}")
    if not users:
        raise OperatorError(f"there is no account {name!r}; see: valetkey user list")
    return users[0]


def client_named(tx: Transaction, client_id: str) -> Client:
    """Return the client with this id. Raises OperatorError if there is none."""
    client = tx.clients.find(client_id)
    if client is None:
        raise OperatorError(f"there is no client {client_id!r}; see: valetkey client list")
    return client


def api_named(tx: Transaction, name: str) -> Api:
    """Return the API with this id or identifier. Raises OperatorError if there is none."""
    api = None
    if name.isprintable():
        api = tx.apis.find(name) or tx.apis.find_by_key(canonical(name))
    if api is None:
        raise OperatorError(f"there is no API {name!r}; see: valetkey api list")
    return api


def missing_groups(tx: Transaction, names: Iterable[str]) -> tuple[str, ...]:
    """Return a remark about each group that an app or API requires and that does not exist."""
    missing = (name for name in dict.fromkeys(names) if tx.groups.find(name) is None)
    return tuple(f"requires the group {name}, which does not exist" for name in missing)


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
    records: list[T] = []
    while more := page(records[-1] if records else None):
        records += more
    return records


_CREDENTIAL = re.compile(r"^# credential of the resource server: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class KeyringBackup:
    """The keyring, and the credential if it is in a file."""

    keyring: Keyring
    credential: Secret | None

    @staticmethod
    def parse(text: str) -> "KeyringBackup":
        """Parse a backup file or a plain keyring file. Raises OperatorError."""
        match = _CREDENTIAL.search(text)
        return KeyringBackup(Keyring.parse(text), Secret(match[1]) if match else None)

    def text(self) -> str:
        """Return the content of the backup file: a keyring with the credential in a comment."""
        if self.credential is None:
            return self.keyring.text()
        line = f"# credential of the resource server: {self.credential.reveal()}\n"
        return self.keyring.text() + line


def by_algorithm(records: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Return the keys grouped by algorithm, the default algorithm first, each earliest first."""
    order = [algorithm.value for algorithm in Algorithm]
    return sorted(records, key=lambda record: order.index(str(record["algorithm"])))


async def opens_all(opened: OpenedStore) -> tuple[int, int]:
    """Return how many of the database's signing keys this keyring decrypts, and their total."""
    records = await opened.store.read(lambda tx: tuple(tx.signing_keys.all(opened.now)))
    return count_opened(records, opened.keyring), len(records)


_AT_ONCE = 500


async def rotate_sealing_key(opened: OpenedStore) -> int:
    """Encrypt all stored secrets with a new key.

    Return its version. Old keys remain for decryption.

    The file is written first, so that it can decrypt everything at any moment. Raises OperatorError
    if the keyring is not a file.
    """
    settings = opened.settings
    if settings.authorization.keyring_text is not None:
        raise OperatorError(
            "the keyring comes from VALETKEY__AUTHORIZATION__KEYRING_TEXT; put it into a file, "
            "name that as authorization.keyring, and rotate it there"
        )
    rotated = opened.keyring.with_new_sealing_key(opened.runtime.random)
    replace_secret_file(keyring_path(settings), rotated.text())
    old, new, version = opened.keyring.sealer, rotated.sealer, rotated.sealer.keys[0].version

    def reseal(sealed: str, where: str, what: str) -> str:
        plain = old.open(sealed, where)
        if plain is None:
            raise OperatorError(f"the keyring does not open {what}: restore the right one")
        return new.seal(plain, where, opened.runtime.random)

    def reseal_all(tx: Transaction) -> None:
        for record in tx.signing_keys.all(opened.now):
            sealed = reseal(record.sealed, binding(record.kid), f"signing key {record.kid}")
            tx.signing_keys.reseal(record.kid, record.sealed, sealed)
        for name, before in tx.clients.sealed_secrets():
            sealed = reseal(before, secret_context(name), f"client secret {name}")
            tx.clients.reseal_secret(name, before, sealed)
        last = ""
        while authenticators := tx.credentials.authenticators(last, _AT_ONCE):
            for last, before in authenticators:
                sealed = reseal(before, authenticator_place(last), f"authenticator {last}")
                tx.credentials.reseal(last, before, sealed)
        _reseal_features(tx, reseal)
        tx.events.add(KeyringRotated(version), opened.now)

    await opened.store.write(reseal_all)
    return version


def _reseal_features(tx: Transaction, reseal: Reseal) -> None:
    for feature in FEATURES:
        feature.reseals(tx, reseal)


async def rotate_credential(opened: OpenedStore) -> Path:
    """Write a new credential to its file; the previous one works for a day.

    Raises OperatorError.
    """
    settings = opened.settings
    if settings.resource.credential_text is not None:
        raise OperatorError(
            "the credential comes from VALETKEY__RESOURCE__CREDENTIAL_TEXT; change it there, for "
            "both servers, and restart the authorization server first"
        )
    path, keeper = credential_path(settings), registrar(opened)
    secret = fresh_secret(Prefix.CLIENT_SECRET, opened.runtime.random)
    # Registered first: an unused credential does no harm, an unregistered one does.
    await opened.store.write(lambda tx: keep_registered(tx, keeper, secret, opened.now))
    create_or_read_secret_file(path, secret.reveal)
    replace_secret_file(path, secret.reveal())
    return path
