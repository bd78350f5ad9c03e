"""A server where applications register themselves, and the few words to do so in."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.asgi import Answer
from tests.support.harness import CALLBACK, Harness, harness
from valetkey.authorization.actions.registrations import invite
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.config.settings import RegistrationMode, RegistrationSettings
from valetkey.kernel.moment import days, later
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret

JSON = "application/json"
PLAIN: Mapping[str, object] = {"redirect_uris": [CALLBACK], "client_name": "Printer"}


@dataclass(frozen=True)
class Registry:
    """The server, as applications see it that register themselves."""

    service: Harness

    async def register(self, metadata: object = PLAIN, token: str = "") -> Answer:
        """One registration."""
        return await self.raw(json.dumps(metadata).encode(), token)

    async def raw(self, body: bytes, token: str = "", content_type: str = JSON) -> Answer:
        """The same, byte for byte."""
        bearer = f"Bearer {token}" if token else ""
        return await self.service.call("POST", "/oauth/register", body, content_type, bearer)

    async def registered(self, **metadata: object) -> dict[str, Any]:
        """A registration that succeeds; `metadata` changes the plain one."""
        answer = await self.register({**PLAIN, **metadata})
        assert answer.status == 201, answer.body
        return answer.json

    async def manage(
        self,
        record: Mapping[str, Any],
        method: str = "GET",
        metadata: object = None,
        token: str = "",
    ) -> Answer:
        """What the application does with its own registration."""
        body = b"" if metadata is None else json.dumps(metadata).encode()
        bearer = f"Bearer {token or record['registration_access_token']}"
        path = f"/oauth/register/{record['client_id']}"
        return await self.service.call(method, path, body, JSON if body else "", bearer)

    async def invitation(self, uses: int = 1) -> str:
        """An initial access token."""
        token = fresh_secret(Prefix.INVITATION, SYSTEM.random)
        now = self.service.clock.now
        made = InitialAccessToken(
            fresh_id("in", SYSTEM.random), "test", uses, now, later(now, days(1))
        )
        key = self.service.foundation.keyring.fingerprint_key
        await self.service.write(lambda tx: invite(tx, key, token, made, now))
        return token.reveal()


def run(
    directory: Path,
    story: Callable[[Registry], Awaitable[None]],
    database: str = "",
    **options: Any,
) -> None:
    """Run a story with a server where registration is open, or with these `options`."""

    async def tell() -> None:
        settings = replace(RegistrationSettings(mode=RegistrationMode.OPEN), **options)
        async with harness(directory, database, registration=settings) as it:
            await story(Registry(it))

    asyncio.run(tell())
