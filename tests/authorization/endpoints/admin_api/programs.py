"""Programs with tokens of the admin API, in a server of their own."""

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import MAY, CommandLine, Permission
from valetkey.authorization.actions.admin.tokens import FreshToken, WantedToken
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.user import ApiToken, Role, Uid, User
from valetkey.kernel.moment import Lifetime, days
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret

EVERYTHING = tuple(permission.value for permission in Permission)


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        """The object in the body."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def record(self) -> dict[str, object]:
        """Its member `record`."""
        value = self.json["record"]
        assert isinstance(value, dict)
        return value

    @property
    def items(self) -> list[dict[str, object]]:
        """Its member `items`."""
        value = self.json["items"]
        assert isinstance(value, list)
        return value


@dataclass
class Caller:
    """Somebody with a token."""

    it: Harness
    token: str

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One call below /admin/api/v1."""
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        sent = {"host": "localhost:8400"}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        if content:
            sent |= {"content-type": "application/json", "content-length": str(len(content))}
        sent |= headers or {}
        target, _, query = f"/admin/api/v1{path}".partition("?")
        scope: MutableMapping[str, object] = {
            "type": "http",
            "method": method,
            "path": target,
            "raw_path": target.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in sent.items()],
            "scheme": "http",
            "client": ("127.0.0.1", 50_000),
            "http_version": "1.1",
        }
        messages: list[MutableMapping[str, object]] = []

        async def receive() -> MutableMapping[str, object]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: MutableMapping[str, object]) -> None:
            messages.append(message)

        await self.it.app(scope, receive, send)
        status, pairs = messages[0]["status"], messages[0]["headers"]
        assert isinstance(status, int)
        assert isinstance(pairs, list)
        pieces = [message.get("body", b"") for message in messages[1:]]
        reply_body = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        return Reply(status, {k.decode(): v.decode() for k, v in pairs}, reply_body)


async def person(it: Harness, name: str, role: Role | None, uid: int) -> Uid:
    """Somebody with an account and this role."""
    record = UserRecord(name, f"{name}@example.com", name.capitalize())
    made = await it.write(
        lambda tx: it.foundation.accounts().register(tx, record, it.clock.now, uid=uid)
    )
    assert isinstance(made, User), made
    await give_role(it, made.uid, role)
    return made.uid


async def give_role(it: Harness, uid: Uid, role: Role | None) -> None:
    """Assign or remove a role."""
    await it.write(lambda tx: tx.user_directory.set_role(uid, role, it.clock.now))


async def caller(
    it: Harness,
    role: Role = Role.OWNER,
    permissions: Sequence[str] = (),
    *,
    uid: Uid = ADA,
    lifetime: Lifetime | None = None,
) -> Caller:
    """Ada has this role from now on, and a token with these permissions, or all of her role."""
    await give_role(it, uid, role)
    fresh = FreshToken(fresh_id("at", SYSTEM.random), fresh_secret(Prefix.API_TOKEN, SYSTEM.random))
    names = tuple(permissions) or tuple(permission.value for permission in MAY[role])
    wanted_token = WantedToken("A program", names, lifetime or days(30), uid)
    key = it.foundation.keyring.fingerprint_key
    made = await it.write(
        lambda tx: tokens.issue(tx, CommandLine(), key, wanted_token, fresh, it.clock.now)
    )
    assert isinstance(made, ApiToken), made
    return Caller(it, fresh.secret.reveal())
