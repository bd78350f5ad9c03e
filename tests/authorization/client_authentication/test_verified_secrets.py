"""A verified secret is remembered, and refused as soon as it would be without that memory."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.asgi import Answer, basic
from tests.support.harness import SECRET, Harness, run
from valetkey.authorization import client_authentication as module
from valetkey.authorization.client_authentication import (
    ClientAuthentication,
    ClientDirectory,
    SecretUses,
    VerifiedSecrets,
)
from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.client_authentication.client_secret import METHOD
from valetkey.authorization.protocol.client_authentication.method import (
    Authenticated,
    ClientProof,
    Presented,
)
from valetkey.kernel.moment import Instant, hours, seconds
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.web.body import EMPTY, Form

_GRANT = "client_credentials"
_NEW = "n" * 40


async def _service(it: Harness, name: str = "svc", **metadata: object) -> Client:
    return await it.client(name, grant_types=(_GRANT,), **metadata)


def _in_body(it: Harness, name: str = "svc", secret: str = SECRET) -> Awaitable[Answer]:
    return it.post(
        "/oauth/token", {"grant_type": _GRANT, "client_id": name, "client_secret": secret}
    )


def _in_header(it: Harness, name: str = "svc", secret: str = SECRET) -> Awaitable[Answer]:
    return it.post("/oauth/token", {"grant_type": _GRANT}, basic(name, secret))


@contextmanager
def _verifications(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Yield the places from which secrets were verified, not remembered."""
    seen: list[str] = []
    authenticate = ClientAuthentication.authenticate

    async def watched(
        self: ClientAuthentication, presented: Presented, address_prefix: str
    ) -> Authenticated:
        seen.append("body" if presented.basic is None else "header")
        return await authenticate(self, presented, address_prefix)

    with monkeypatch.context() as patch:
        patch.setattr(ClientAuthentication, "authenticate", watched)
        yield seen


@pytest.fixture
def memories(monkeypatch: pytest.MonkeyPatch) -> list[VerifiedSecrets]:
    """The memories of the servers that the test starts."""
    made: list[VerifiedSecrets] = []
    begin = VerifiedSecrets.__init__

    def watched(
        self: VerifiedSecrets, directory: ClientDirectory, uses: SecretUses, key: bytes
    ) -> None:
        begin(self, directory, uses, key)
        made.append(self)

    monkeypatch.setattr(VerifiedSecrets, "__init__", watched)
    return made


def test_verified_secret_is_verified_again_after_a_minute_and_per_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await _service(it)
        with _verifications(monkeypatch) as seen:
            for _ in range(3):
                assert (await _in_body(it)).status == 200
                assert (await _in_header(it)).status == 200
            assert seen == ["body", "header"]
            it.clock.forward(module.LONGEST - 1)
            assert (await _in_body(it)).status == 200
            assert seen == ["body", "header"]
            it.clock.forward(1)
            assert (await _in_body(it)).status == 200
            assert seen == ["body", "header", "body"]
            it.clock.forward(-2)
            assert (await _in_body(it)).status == 200
            assert seen == ["body", "header", "body", "body"]

    run(tmp_path, story, database_url)


def test_secret_in_the_url_is_verified_and_counted_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        await _service(it)
        assert (await _in_body(it)).status == 200
        target = f"/oauth/token?grant_type={_GRANT}&client_id=svc&client_secret={SECRET}"
        with _verifications(monkeypatch) as seen:
            for number in (1, 2):
                assert (await it.post(target)).status == 200
                assert len(seen) == number

    run(tmp_path, story)


@pytest.mark.parametrize("send", [_in_body, _in_header])
@pytest.mark.parametrize("change", ["disable", "rotate", "end", "delete"])
def test_change_by_another_process_invalidates_a_remembered_secret(
    tmp_path: Path,
    database_url: str,
    send: Callable[[Harness], Awaitable[Answer]],
    change: str,
) -> None:
    async def story(it: Harness) -> None:
        client = await _service(it)
        assert (await send(it)).status == 200
        assert (await send(it)).status == 200
        registrar = it.foundation.registrar("test")
        now = it.clock.now
        if change == "disable":
            assert await it.write(lambda tx: registrar.disable(tx, client, now))
        elif change == "rotate":
            await it.write(
                lambda tx: registrar.issue_secret(
                    tx, client, Secret(_NEW), now, others_live=seconds(0)
                )
            )
        elif change == "end":
            (stored_secret,) = client.secrets
            assert await it.write(
                lambda tx: registrar.end_secret(tx, client, stored_secret.id, now)
            )
        else:
            await it.write(lambda tx: registrar.remove(tx, client, now, because="deleted"))
        # What `Engine.changed` tells after half a second on PostgreSQL, and at once on SQLite.
        it.server.directory.recheck()
        (await send(it)).refused(401, "invalid_client")

    run(tmp_path, story, database_url)


def test_own_change_is_noticed_at_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        client = await _service(it)
        assert (await _in_body(it)).status == 200
        registrar = it.foundation.registrar("test")
        assert await it.store.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        (await _in_body(it)).refused(401, "invalid_client")
        stored_client = await it.read(lambda tx: tx.clients.find("svc"))
        assert stored_client is not None
        assert await it.store.write(lambda tx: registrar.enable(tx, stored_client, it.clock.now))
        assert (await _in_body(it)).status == 200

    run(tmp_path, story, database_url)


def test_remembered_secret_expires_on_time(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await _service(it)
        registrar = it.foundation.registrar("test")
        until = 30
        await it.write(
            lambda tx: registrar.issue_secret(
                tx, client, Secret(_NEW), it.clock.now, others_live=hours(1)
            )
        )
        it.clock.forward(hours(1) - until)
        assert (await _in_body(it)).status == 200
        it.clock.forward(until - 1)
        assert (await _in_body(it)).status == 200
        it.clock.forward(1)
        (await _in_body(it)).refused(401, "invalid_client")
        assert (await _in_body(it, secret=_NEW)).status == 200

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("registered", "right", "wrong"),
    [
        ("client_secret_basic", _in_header, _in_body),
        ("client_secret_post", _in_body, _in_header),
    ],
)
def test_registered_auth_method_is_required_after_a_success(
    tmp_path: Path,
    registered: str,
    right: Callable[[Harness], Awaitable[Answer]],
    wrong: Callable[[Harness], Awaitable[Answer]],
) -> None:
    async def story(it: Harness) -> None:
        client = await _service(it)
        openid = replace(client.openid, token_endpoint_auth_method=registered)
        await it.change(replace(client, openid=openid))
        for _ in range(2):
            assert (await right(it)).status == 200
            (await wrong(it)).refused(401, "invalid_client")

    run(tmp_path, story)


def test_remembered_secret_is_refused_for_another_client_or_a_second_method(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await _service(it)
        await _service(it, "other")
        header = basic("svc", SECRET)
        form = {"grant_type": _GRANT}
        assert (await _in_header(it)).status == 200
        assert (await _in_body(it)).status == 200
        own = await it.post("/oauth/token", {**form, "client_id": "svc"}, header)
        assert own.status == 200
        foreign = await it.post("/oauth/token", {**form, "client_id": "other"}, header)
        foreign.refused(400, "invalid_request")
        body = {**form, "client_id": "svc", "client_secret": SECRET}
        (await it.post("/oauth/token", body, header)).refused(400, "invalid_request")
        for name in ("client_assertion", "client_assertion_type"):
            twice = await it.post("/oauth/token", {**form, name: "x"}, header)
            twice.refused(400, "invalid_request")
            twice = await it.post("/oauth/token", {**body, name: "x"})
            twice.refused(400, "invalid_request")

    run(tmp_path, story)


def test_wrong_secrets_are_throttled_between_remembered_successes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _service(it)
        for _ in range(it.settings.limits.client_failures):
            assert (await _in_body(it)).status == 200
            (await _in_body(it, secret="x" * 40)).refused(401, "invalid_client")
        (await _in_body(it, secret="x" * 40)).refused(429, "slow_down")
        assert (await _in_body(it)).status == 200

    run(tmp_path, story)


def test_use_of_a_remembered_secret_is_recorded_once_an_hour(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _service(it)
        store = it.foundation.store
        directory, uses = ClientDirectory(store), SecretUses()
        memory = VerifiedSecrets(directory, uses, b"k" * 32)
        client = await directory.find("svc")
        assert client is not None
        digest, (secret,) = memory.digest(b"Basic x", EMPTY), client.secrets
        assert digest is not None
        now = Instant(it.clock.now + hours(2))
        memory.add(digest, Authenticated(client, METHOD.name, ClientProof(None, (secret,))), now)
        uses.record(secret.id, Instant(now - hours(1) + 1))
        await uses.flush(store)
        for at, noted in ((now, now - hours(1) + 1), (now + 1, now + 1), (now + 2, now + 1)):
            assert await memory.find(digest, None, Instant(at)) is not None
            await uses.flush(store)
            (stored_secret,) = await store.read(lambda tx: tx.secrets.usable("svc", now))
            assert stored_secret.last_used_at == noted

    run(tmp_path, story)


def test_memory_is_bounded_and_holds_successes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memories: list[VerifiedSecrets]
) -> None:
    monkeypatch.setattr(module, "MOST", 3)

    async def story(it: Harness) -> None:
        await it.client("spa", type="public", grant_types=("authorization_code",))
        for number in range(5):
            await _service(it, f"c{number}")
            assert (await _in_body(it, f"c{number}")).status == 200
            (await _in_body(it, f"c{number}", "x" * 40)).refused(401, "invalid_client")
        await it.post("/oauth/token", {"grant_type": "refresh_token", "client_id": "spa"})
        await it.post("/oauth/token", {"grant_type": "refresh_token"}, basic("spa", ""))
        kept = memories[-1]._known.values()
        assert [proven.client.id for proven, _ in kept] == ["c2", "c3", "c4"]

    run(tmp_path, story)


def test_memory_holds_no_plain_secret_and_its_digests_differ_per_process(
    tmp_path: Path, memories: list[VerifiedSecrets]
) -> None:
    digests: list[bytes] = []

    async def story(it: Harness) -> None:
        await _service(it)
        canary, now = "canary" * 8, it.clock.now
        registrar, client = it.foundation.registrar("test"), it.clients["svc"]
        await it.write(
            lambda tx: registrar.issue_secret(tx, client, Secret(canary), now, others_live=None)
        )
        assert (await _in_header(it, secret=canary)).status == 200
        assert (await _in_body(it, secret=canary)).status == 200
        memory = memories[-1]
        assert len(memory._known) == 2
        assert "canary" not in repr(memory._known)
        assert basic("svc", canary) not in repr(memory._known)
        form = Form({"client_id": "svc", "client_secret": canary})
        for digest in (
            memory.digest(basic("svc", canary).encode(), EMPTY),
            memory.digest(None, form),
        ):
            assert digest in memory._known
            digests.append(digest)

    run(tmp_path / "one", story)
    run(tmp_path / "other", story)
    assert len(set(digests)) == 4
