"""A directory that provisions by SCIM, at a server in memory."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.harness import Harness, harness
from valetkey.authorization.scim.operations import (
    CREATE_SCIM_CREDENTIAL,
    ScimCredentialMade,
    ScimCredentialWanted,
)
from valetkey.authorization.scim.settings import ScimSettings

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
_MESSAGES = "urn:ietf:params:scim:api:messages:2.0:"


@dataclass
class Reply:
    """What came back; `etag` is "" without one."""

    status: int
    json: Any
    etag: str = ""

    def refused(self, status: int, kind: str | None = None) -> None:
        assert self.json["schemas"] == [f"{_MESSAGES}Error"], self.json
        error = (self.status, self.json["status"], self.json.get("scimType"))
        assert error == (status, str(status), kind), self.json


@dataclass
class Directory:
    """A program with a SCIM credential."""

    it: Harness
    token: str
    id: str

    async def call(
        self, method: str, path: str, body: object = None, *, raw: bytes = b"", if_match: str = ""
    ) -> Reply:
        """One request below /scim/v2."""
        content = raw or (b"" if body is None else json.dumps(body).encode())
        answer = await self.it.call(
            method,
            f"/scim/v2{path}",
            content,
            "application/scim+json" if content else "",
            f"Bearer {self.token}",
            if_match=if_match,
        )
        document = json.loads(answer.body) if answer.body else None
        return Reply(answer.status, document, answer.headers.get("etag", ""))

    async def user(self, user_name: str = "grace@example.com", **more: object) -> dict[str, Any]:
        """Create a user."""
        made = await self.call("POST", "/Users", {"schemas": [USER], "userName": user_name, **more})
        assert made.status == 201, made.json
        resource: dict[str, Any] = made.json
        return resource

    async def group(self, name: str, *members: str) -> dict[str, Any]:
        """Create a group with these members."""
        body = {"schemas": [GROUP], "displayName": name, "members": [{"value": e} for e in members]}
        made = await self.call("POST", "/Groups", body)
        assert made.status == 201, made.json
        resource: dict[str, Any] = made.json
        return resource

    async def patch(self, path: str, *operations: Mapping[str, object]) -> Reply:
        """Send operations of a PATCH request."""
        body = {"schemas": [f"{_MESSAGES}PatchOp"], "Operations": list(operations)}
        return await self.call("PATCH", path, body)

    async def bulk(self, *operations: Mapping[str, object], **more: object) -> Reply:
        """Send operations of a bulk request."""
        body = {"schemas": [f"{_MESSAGES}BulkRequest"], "Operations": list(operations), **more}
        return await self.call("POST", "/Bulk", body)

    async def find(self, kind: str, condition: str) -> list[dict[str, Any]]:
        """Return what a filter finds."""
        answer = await self.call("GET", f"/{kind}?filter={quote(condition)}")
        assert answer.status == 200, answer.json
        resources: list[dict[str, Any]] = answer.json["Resources"]
        assert answer.json["totalResults"] == len(resources)
        return resources


async def directory(it: Harness, name: str = "Okta") -> Directory:
    """Create a credential and its directory."""
    made = await it.perform(CREATE_SCIM_CREDENTIAL, {}, ScimCredentialWanted(name))
    assert isinstance(made, ScimCredentialMade)
    return Directory(it, made.token, made.record.id)


@asynccontextmanager
async def provisioning(folder: Path, database: str = "") -> AsyncGenerator[Directory]:
    """A server with SCIM, and a directory at it."""
    settings = ScimSettings(enabled=True)
    async with harness(folder, database, features=(settings,)) as it:
        yield await directory(it)


async def tell(
    folder: Path, database: str, *stories: Callable[[Directory], Awaitable[None]]
) -> None:
    """Run stories one after the other at one server."""
    async with provisioning(folder, database) as it:
        for story in stories:
            await story(it)
