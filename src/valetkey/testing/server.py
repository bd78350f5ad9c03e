"""Both servers on loopback for a test, with a clock that the test sets.

with Servers(directory) as servers:
servers.register_client(ClientMetadata("Notes Printer", …), "printer", secret)
servers.clock.forward(minutes(11))
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.app import build as authorization
from valetkey.authorization.app.foundation import build_foundation, prepare
from valetkey.authorization.authentication.password import hash_password
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import PasswordSettings, Settings, SettingsSource, TokenSettings
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret
from valetkey.resource import app as resource
from valetkey.resource.scopes import scopes_of
from valetkey.web.connection.bind import bind
from valetkey.web.listen import RunningServer

T = TypeVar("T")

_BY = by_cli("test")

QUICK_PASSWORDS = PasswordSettings(memory=1, passes=1)
"""Hashes that take a millisecond; servers that users reach refuse so small a cost."""


class Clock:
    """The machine's clock, which a test can move forward and stop."""

    def __init__(self) -> None:
        """Start with the machine's time."""
        self._ahead = 0
        self._stopped: Instant | None = None

    def now(self) -> Instant:
        """Return the time of the servers."""
        stopped = self._stopped
        return Instant((SYSTEM.now() if stopped is None else stopped) + self._ahead)

    def forward(self, by: Lifetime) -> None:
        """Move the clock forward."""
        self._ahead += by

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the clock for the duration of the block, unless `forward` moves it.

        For tests of limits, which leak while a busy machine sends the requests.
        """
        before = self._stopped
        self._stopped = SYSTEM.now() if before is None else before
        try:
            yield
        finally:
            self._stopped = before


class Servers:
    """An authorization server and a resource server with their own databases.

    `settings` may change anything but addresses; relative paths start at `directory`. With
    `with_resource` False only the authorization server runs. To save the time of key generation,
    `every_algorithm` False limits servers whose settings name no algorithms to ES256. Servers whose
    settings leave the cost of passwords as it is have `QUICK_PASSWORDS`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Settings | None = None,
        with_resource: bool = True,
        every_algorithm: bool = False,
    ) -> None:
        """Choose free ports now; start in `__enter__`."""
        base_settings = settings or Settings()
        if base_settings.tokens.signing_algorithms == TokenSettings().signing_algorithms:
            few = base_settings.tokens.signing_algorithms if every_algorithm else (Algorithm.ES256,)
            base_settings = replace(
                base_settings, tokens=replace(base_settings.tokens, signing_algorithms=few)
            )
        if base_settings.passwords == PasswordSettings():
            base_settings = replace(base_settings, passwords=QUICK_PASSWORDS)
        self.clock = Clock()
        self.runtime = Runtime(self.clock.now, SYSTEM.random)
        self.scopes = scopes_of(replace(base_settings, source=SettingsSource(None, directory, {})))
        self._sockets = (bind("127.0.0.1", 0), bind("127.0.0.1", 0))
        addresses = [_address(bound_socket) for bound_socket in self._sockets]
        self.settings = replace(
            base_settings,
            authorization=replace(
                base_settings.authorization, url=f"http://{addresses[0]}", listen=addresses[0]
            ),
            resource=replace(
                base_settings.resource, url=f"http://{addresses[1]}", listen=addresses[1]
            ),
            source=SettingsSource(None, directory, {}),
        )
        self._with_resource = with_resource
        self._stack = ExitStack()

    @property
    def auth_url(self) -> str:
        """The authorization server's URL."""
        return self.settings.authorization.url

    @property
    def api_url(self) -> str:
        """The resource server's URL."""
        return self.settings.resource.url

    def __enter__(self) -> Self:
        """Start both servers; they respond when this returns."""
        for sock in self._sockets:
            self._stack.callback(sock.close)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        _run(prepare(self.settings, self.runtime))
        app = _run(authorization.build(self.settings, self.runtime, self.scopes))
        self._stack.enter_context(RunningServer(app, sock=self._sockets[0]))
        if self._with_resource:
            _run(resource.prepare(self.settings, self.runtime))
            api = _run(resource.build(self.settings, self.runtime))
            self._stack.enter_context(RunningServer(api, sock=self._sockets[1]))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop both servers; what they acknowledged is on disk."""
        self._stack.close()

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on the authorization server's database, as another process would."""

        async def run() -> T:
            foundation = build_foundation(self.settings, self.runtime, self.scopes)
            try:
                return await foundation.store.write(work, done_by=_BY)
            finally:
                await foundation.store.engine.close()

        return _run(run())

    def register_client(
        self, metadata: ClientMetadata, client_id: str, secret: str | None = None
    ) -> Client:
        """Register and return a client; raises ValueError for invalid metadata."""
        foundation = build_foundation(self.settings, self.runtime, self.scopes)
        registrar = foundation.registrar("test")
        _run(foundation.store.engine.close())
        client = self.write(
            lambda tx: registrar.register(
                tx,
                metadata,
                self.clock.now(),
                client_id=client_id,
                secret=None if secret is None else Secret(secret),
            )
        )
        if isinstance(client, tuple):
            raise ValueError(client)
        return client

    def register_user(
        self, username: str, password: str, *, uid: int | None = None, name: str = ""
    ) -> User:
        """Register and return a user; raises ValueError for an invalid record."""
        foundation = build_foundation(self.settings, self.runtime, self.scopes)
        accounts = foundation.accounts()
        _run(foundation.store.engine.close())
        stored = hash_password(password, self.settings.passwords, SYSTEM.random)
        record = UserRecord(username, f"{username}@example.com", name or username.capitalize())
        user = self.write(
            lambda tx: accounts.register(
                tx, record, self.clock.now(), uid=uid, password_hash=stored
            )
        )
        if isinstance(user, tuple):
            raise ValueError(user)
        return user


def _run(work: Coroutine[object, object, T]) -> T:
    # A thread of its own: the one that calls may have a loop running, as browser drivers do.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"{host}:{port}"
