"""Test data of the storage conformance suite: a client, a user, a grant."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

from valetkey.authorization.app.foundation import SCHEMA
from valetkey.authorization.features import hooks
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.model.event.event import USUAL_ACTOR, by_cli
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.model.register.client import (
    Client,
    ProfileName,
)
from valetkey.authorization.model.session import Session
from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.connect import connect
from valetkey.database.migrate import migrate
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Fingerprint

T = TypeVar("T")

THREADS = 16
NOW = Instant(1_800_000_000)
LATER = Instant(NOW + 60)


def client(client_id: str = "printer") -> Client:
    """Return a confidential client."""
    return Client(
        id=client_id,
        name="Notes Printer",
        description="Prints notes",
        profile_name=ProfileName.CLASSIC,
        redirect_uris=("https://app.example/cb", "https://app.example/other?a=1"),
        grant_types=frozenset({"authorization_code", "refresh_token"}),
        scope=Scope.of("read", "notes:read"),
        default_scope=Scope.of("notes:read"),
        requires_pkce=False,
        rotates_refresh_token=True,
        ends_with_session=True,
        policy_uri="https://app.example/policy",
        created_at=NOW,
        changed_at=NOW,
    )


def user(uid: int = 1001, name: str = "ada") -> User:
    """Return a user."""
    return User(Uid(uid), name, f"{name}@example.com", None, name.title(), NOW, NOW, None)


def session(session_id: str = "se_1", uid: int = 1001) -> Session:
    """Return the session of that user in a browser."""
    return Session(
        session_id, Uid(uid), NOW, ("pwd",), "Firefox", NOW, NOW, Instant(NOW + 600), None
    )


def grant(grant_id: str = "gr_1", uid: int = 1001) -> Grant:
    """Return a grant of the user to the client, with a refresh token."""
    return Grant(
        id=grant_id,
        client_id="printer",
        uid=Uid(uid),
        session_id="",
        scope=Scope.of("notes:read"),
        audience="https://api.example",
        grant_type="authorization_code",
        auth_time=NOW,
        created_at=NOW,
        last_used_at=NOW,
        expires_at=Instant(NOW + 600),
        refresh_print="first",
        refresh_expires_at=Instant(NOW + 300),
        generation=1,
    )


def voucher(text: str = "a code", client_id: str = "printer") -> Voucher:
    """Return the voucher of a code."""
    return Voucher(VoucherKind.CODE, Fingerprint(text), client_id, "gr_1", "{}", LATER)


def add_records(tx: Transaction) -> None:
    """Insert the client, the user and a grant."""
    tx.clients.register(client())
    tx.users.register(user())
    tx.sessions.start(session(), Fingerprint("cookie"))
    tx.grants.issue(grant())


class Memory:
    """A store on a database of its own, with methods that block."""

    def __init__(self, url: str, directory: Path) -> None:
        """Create the tables and the test data."""
        self.store = Store(
            connect(url, directory=directory), SYSTEM.random, by_cli("test"), hooks()
        )
        asyncio.run(migrate(self.store.engine, SCHEMA))
        self.write(add_records)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a transaction that writes, and return its result."""
        return asyncio.run(self.store.write(work, done_by=USUAL_ACTOR))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a transaction that reads, and return its result."""
        return asyncio.run(self.store.read(work))

    def contend(self, work: Callable[[Transaction, int], T]) -> list[T]:
        """Run the same work on sixteen threads at once. Return the results."""
        start = Barrier(THREADS)

        def begin(number: int) -> T:
            start.wait()
            return self.write(lambda tx: work(tx, number))

        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(begin, range(THREADS)))

    def close(self) -> None:
        """Close the database."""
        asyncio.run(self.store.engine.close())
