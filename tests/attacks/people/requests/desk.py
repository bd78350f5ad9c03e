"""The operator's desk: what an administrator changes while people are on their way."""

import asyncio
from typing import TypeVar

from tests.support.live import LiveServers
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.app.foundation import Foundation, build_foundation
from valetkey.authorization.authentication.password import hash_password
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.scopes import SCOPES

T = TypeVar("T")


def change_client(world: LiveServers, client_id: str, **changes: object) -> None:
    """The client becomes what is said, through the same rules as everywhere."""
    registrar, now = _foundation(world).registrar("test"), world.servers.clock.now()

    def change(tx: Transaction) -> object:
        client = _client(tx, client_id)
        metadata = replace(metadata_of(client), **changes)  # type: ignore[arg-type]
        return registrar.change(tx, client, metadata, now)

    changed = world.servers.write(change)
    assert isinstance(changed, Client), changed


def switch_client(world: LiveServers, client_id: str, *, on: bool) -> None:
    """The client is switched on or off."""
    registrar, now = _foundation(world).registrar("test"), world.servers.clock.now()
    switch = registrar.enable if on else registrar.disable
    assert world.servers.write(lambda tx: switch(tx, _client(tx, client_id), now))


def switch_user(world: LiveServers, name: str, *, on: bool) -> None:
    """The account is switched on or off."""
    accounts, now = _foundation(world).accounts(), world.servers.clock.now()
    switch = accounts.enable if on else accounts.disable
    assert world.servers.write(lambda tx: switch(tx, _user(tx, name), now))


def change_password(world: LiveServers, name: str, password: str) -> None:
    """The account gets another password."""
    accounts, now = _foundation(world).accounts(), world.servers.clock.now()
    stored = hash_password(password, world.servers.settings.passwords, SYSTEM.random)
    world.servers.write(lambda tx: accounts.set_password(tx, _user(tx, name), stored, now))


def count(world: LiveServers, table: str, where: str = "1 = 1") -> int:
    """How many rows there are."""
    return world.servers.write(lambda tx: len(tx.db.rows(f"SELECT 1 FROM {table} WHERE {where}")))


def _client(tx: Transaction, client_id: str) -> Client:
    client = tx.clients.find(client_id)
    assert client is not None
    return client


def _user(tx: Transaction, name: str) -> User:
    user = tx.users.find_by_name(name)
    assert user is not None
    return user


def _foundation(world: LiveServers) -> Foundation:
    foundation = build_foundation(world.servers.settings, world.servers.runtime, SCOPES)
    asyncio.run(foundation.store.engine.close())
    return foundation
