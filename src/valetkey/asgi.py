"""Both servers as ASGI 3 applications, for a standard server such as uvicorn or hypercorn.

`uvicorn valetkey.asgi:authorization` and `uvicorn valetkey.asgi:resource` read the configuration
as `valetkey serve` does: the file that VALETKEY_CONFIG names, else `valetkey.toml` here, and the
environment on top. What our own connections add is missing there: deadlines, limits by address,
the bound on requests at work. A proxy has to keep them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from valetkey.cli.serving import authorization as _authorization
from valetkey.cli.serving import resource as _resource
from valetkey.cli.serving import trace_export
from valetkey.config.environment import environment
from valetkey.config.load import find_file, load
from valetkey.config.settings import Settings
from valetkey.database.engine import NOTICES, DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError
from valetkey.web import log
from valetkey.web.connection.incoming_request import Message, Receive, Send
from valetkey.web.router import RoutedApp

FILE = "VALETKEY_CONFIG"
"""The environment variable that names the configuration file."""


class Application:
    """One server, built when the ASGI server starts its lifespan."""

    def __init__(
        self,
        prepare: Callable[[Settings], Coroutine[object, object, None]],
        build: Callable[[Settings], Awaitable[RoutedApp]],
        name: str,
    ) -> None:
        """Read nothing yet: a module that is imported must not open a database."""
        self._name = name
        self._stop_traces: Callable[[], None] | None = None
        self._prepare = prepare
        self._build = build
        self._app: RoutedApp | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or live one lifespan."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif self._app is None:
            raise RuntimeError("the ASGI server must run the lifespan of this application")
        else:
            await self._app(scope, receive, send)

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        begun = [await receive()]
        try:
            self._app = await self._start()
        except (OperatorError, DatabaseUnavailable) as reason:
            await send({"type": "lifespan.startup.failed", "message": str(reason)})
            return

        async def again() -> Message:
            return begun.pop() if begun else await receive()

        await self._app(scope, again, send)
        if self._stop_traces is not None:
            await asyncio.to_thread(self._stop_traces)

    async def _start(self) -> RoutedApp:
        variables = environment()
        named = variables.get(FILE)
        settings = load(find_file(Path(named) if named else None), variables)
        log.set_up(settings.log.level, settings.log.format)
        NOTICES.begin(log.throttled, settings.log.slow_statement / 1000)
        self._stop_traces = trace_export.begin(settings, self._name)
        await self._prepare(settings)
        return await self._build(settings)


authorization = Application(
    _authorization.ready_database, _authorization.application, "authorization"
)
resource = Application(_resource.ready_database, _resource.application, "resource")
