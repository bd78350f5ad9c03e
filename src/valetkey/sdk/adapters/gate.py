"""Gate: an API's trusted issuer, its metadata and error responses, run on any event loop."""

import asyncio
import atexit
import contextlib
import os
import ssl
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock, Thread
from weakref import WeakSet

import msgspec

from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.sdk.caller import Caller, Challenge
from valetkey.sdk.fetch import Credential
from valetkey.sdk.protect import (
    NO_MEMORY,
    Memory,
    Protection,
    metadata_document,
    metadata_path,
    metadata_url,
)
from valetkey.sdk.upstream.discovery import Issuer

_CHALLENGED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

Make = Callable[["Gate"], Protection]
"""Creates the protection of a gate."""


METADATA_HEADERS = {"access-control-allow-origin": "*"}
"""Headers of the metadata document: clients in browsers of any origin may read it."""


@dataclass(frozen=True, slots=True)
class Denial:
    """An error response, ready to be sent: a problem (RFC 9457) and a challenge (RFC 6750)."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Gate:
    """The configuration of an API for all adapters. Create one, pass it to the adapter.

    >>> from valetkey.sdk.testing import trusted
    >>> gate = Gate("https://auth.example.com", audience="https://api.example.com")
    >>> gate.metadata_path
    '/.well-known/oauth-protected-resource'

    In a test, the gate trusts tokens that the test issues:

    >>> with trusted(gate) as mint:
    ...     headers = mint.headers("notes:read")
    >>> headers["Authorization"].startswith("Bearer ")
    True
    """

    def __init__(
        self,
        issuer: Issuer | str,
        *,
        audience: str,
        credential: Credential | None = None,
        name: str = "",
        documentation: str = "",
        scopes: Collection[str] = (),
        memory: Memory = NO_MEMORY,
        tls: ssl.SSLContext | None = None,
        runtime: Runtime = SYSTEM,
        reports_uses: bool = True,
        revocations_max_age: Lifetime | None = None,
    ) -> None:
        """Admit callers with a token of `issuer` for `audience`.

        A string is the URL of a Valetkey authorization server. `credential`, `memory`, `tls` and
        `revocations_max_age` are as for `Protection`; `name` and `documentation` describe the API
        in its metadata, where `scopes` precede those that its routes need. With a credential, the
        uses of these scopes are reported to the issuer once a minute, so that users see which
        permissions apps use; `reports_uses` turns that off.
        """
        self.issuer = Issuer.valetkey(issuer) if isinstance(issuer, str) else issuer
        self.audience = audience
        self.credential = credential
        self.memory = memory
        self.tls = tls
        self.runtime = runtime
        self.reports_uses = reports_uses
        self.revocations_max_age = revocations_max_age
        self.metadata_path = metadata_path(audience)
        self._name = name
        self._documentation = documentation
        self._scopes = dict.fromkeys(scopes)
        self._make: Make = _protection
        self._challenge = Challenge(audience, metadata_url(audience))
        self.changes = 0

    def metadata(self) -> bytes:
        """Return the API's metadata document (RFC 9728), to be served at `metadata_path`.

        With `METADATA_HEADERS`, as `application/json`.
        """
        return metadata_document(
            self.audience,
            [self.issuer.url],
            tuple(self._scopes),
            name=self._name,
            documentation=self._documentation,
        )

    def needs(self, names: Collection[str]) -> None:
        """Record that a route needs one of these scopes, for the metadata."""
        self._scopes.update(dict.fromkeys(names))

    def watches(self) -> Collection[str]:
        """Return the scopes whose use is reported; "" alone for an API without scopes."""
        return tuple(self._scopes) or ("",)

    def protection(self) -> Protection:
        """Return a new protection, which belongs to one event loop."""
        return self._make(self)

    def replace(self, make: Make | None) -> None:
        """Create protections with `make` from now on; None for the real ones. For tests."""
        self._make = make or _protection
        self.changes += 1

    def deny(self, refusal: Refusal, needs: Collection[str] = ()) -> Denial:
        """Return the response to `refusal`; its challenge names the first scope of `needs`."""
        status = refusal.code.status
        problem: dict[str, object] = {
            "title": refusal.code.heading,
            "status": status,
            "detail": refusal.description,
            "code": refusal.code.value,
        }
        if self.issuer.errors:
            problem["type"] = f"{self.issuer.errors}/{refusal.code}"
        headers = [("content-type", "application/problem+json"), ("cache-control", "no-store")]
        # With a challenge, clients would request another token, which has no other roles.
        if status in _CHALLENGED and refusal.code is not ErrorCode.FORBIDDEN:
            scope = next(iter(needs), "")
            headers.append(("www-authenticate", self._challenge.header(refusal, scope)))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return Denial(status, tuple(headers), msgspec.json.encode(problem))


def _protection(gate: Gate) -> Protection:
    return Protection(
        gate.issuer,
        audience=gate.audience,
        credential=gate.credential,
        memory=gate.memory,
        tls=gate.tls,
        resource_metadata=metadata_url(gate.audience),
        watches=gate.watches if gate.reports_uses else None,
        revocations_max_age=gate.revocations_max_age,
    )


_CLOSE_WITHIN = 5.0  # seconds


class Running:
    """The protection of the running event loop, created and followed from the first request on."""

    def __init__(self, gate: Gate) -> None:
        """Work for `gate`; nothing starts yet."""
        self._gate = gate
        self._loop: asyncio.AbstractEventLoop | None = None
        self._protection: Protection | None = None
        self._following: asyncio.Task[None] | None = None
        self._changes = 0

    async def admit(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Return the caller, as `Protection.admit`. Raises Refused."""
        protection = self._protection
        if protection is None or self._is_stale():
            protection = await self.start()
        now = self._gate.runtime.now()
        return await protection.admit(authorization, now, *needs, roles=roles)

    async def start(self) -> Protection:
        """Start following keys and revocations, unless that runs already."""
        if self._protection is not None and not self._is_stale():
            return self._protection
        loop = asyncio.get_running_loop()
        # Objects of another loop can neither be used nor closed from here.
        old = self._protection if self._loop is loop else None
        following = self._following if self._loop is loop else None
        protection = self._protection = self._gate.protection()
        self._loop, self._changes = loop, self._gate.changes
        self._following = loop.create_task(protection.follow(self._gate.runtime.now))
        await _end(old, following)
        return protection

    async def close(self) -> None:
        """Stop following and close the connections; the next request starts again."""
        protection, following = self._protection, self._following
        self._protection = self._following = None
        await _end(protection, following)

    def _is_stale(self) -> bool:
        if self._loop is not asyncio.get_running_loop() or self._changes != self._gate.changes:
            return True
        # However it ended: without it no revocation would be heard of any more.
        return self._following is not None and self._following.done()


async def _end(protection: Protection | None, following: asyncio.Task[None] | None) -> None:
    if following is not None:
        following.cancel()
        # Not awaited: its failure must not be one of this request, or of the end of the
        # interpreter, which takes away the threads that look up names.
        await asyncio.wait({following})
        if not following.cancelled() and (failure := following.exception()):
            context = {"message": "following the issuer failed", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)
    if protection is not None:
        await protection.close()


class Background:
    """A gate for threads: one event loop on one thread, started by the first request.

    Each process has its own: after a fork the child starts again. It ends with the interpreter.
    """

    def __init__(self, gate: Gate) -> None:
        """Work for `gate`; nothing starts yet."""
        self._gate = gate
        self._left: list[object] = []
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running = Running(gate)
        _everywhere.add(self)

    def admit(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Return the caller, as `Protection.admit`; blocks the calling thread. Raises Refused."""
        return self._begin(authorization, needs, roles).result()

    async def admit_async(
        self, authorization: Sequence[str], *needs: str, roles: Collection[str] = ()
    ) -> Caller:
        """Admit the caller of a request, from any event loop. Raises Refused."""
        return await asyncio.wrap_future(self._begin(authorization, needs, roles))

    def close(self) -> None:
        """End the thread; the next request starts again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        # A hanging task must not keep the interpreter from ending.
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._running.close(), loop).result(_CLOSE_WITHIN)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _begin(
        self, authorization: Sequence[str], needs: Sequence[str], roles: Collection[str]
    ) -> Future[Caller]:
        loop = self._loop
        if loop is None:
            loop = self._start()
        admitted = self._running.admit(authorization, *needs, roles=roles)
        return asyncio.run_coroutine_threadsafe(admitted, loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = Thread(target=loop.run_forever, name="valetkey", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    def reset_after_fork(self) -> None:
        """Start again without stopping the old loop: in the child of a fork it is the parent's."""
        # Kept, not collected: the parent still uses the descriptors of these objects.
        self._left.append((self._loop, self._thread, self._running))
        self._lock = Lock()
        self._loop = self._thread = None
        self._running = Running(self._gate)


_everywhere: WeakSet[Background] = WeakSet()


def _each(verb: Callable[[Background], None]) -> Callable[[], None]:
    def do() -> None:
        for background in tuple(_everywhere):
            verb(background)

    return do


# In the child of a fork the thread does not exist and its locks cannot be trusted.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_each(Background.reset_after_fork))
atexit.register(_each(Background.close))
