"""The directory of clients believes itself only as long as nobody changed the register."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.asgi import FORM
from tests.support.harness import SECRET, Harness, run
from valetkey.authorization import client_authentication as module
from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.model.client import Client
from valetkey.authorization.storage.clients import Clients
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.postgres import Postgres
from valetkey.database.sqlite import SQLite
from valetkey.kernel.moment import hours
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret


def test_client_change_through_another_engine_takes_effect_at_once(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        await it.own_token("svc")
        registrar = it.foundation.registrar("test")
        client = it.clients["svc"]
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        answer = await it.token("svc", grant_type="client_credentials")
        answer.refused(401, "invalid_client")
        stored_client = await it.read(lambda tx: tx.clients.find("svc"))
        assert stored_client is not None
        assert await it.write(lambda tx: registrar.enable(tx, stored_client, it.clock.now))
        await it.own_token("svc")

    run(tmp_path, story)


def test_second_secret_is_valid_at_once_and_the_first_expires_on_time(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("svc", grant_types=("client_credentials",))
        await it.own_token("svc")
        registrar = it.foundation.registrar("test")
        new = "n" * 40
        assert not await it.write(
            lambda tx: registrar.issue_secret(
                tx, client, Secret(new), it.clock.now, others_live=hours(1)
            )
        )
        for secret in (SECRET, new):
            await it.own_token("svc", client_secret=secret)
        it.clock.forward(hours(1))
        answer = await it.token("svc", grant_type="client_credentials")
        answer.refused(401, "invalid_client")
        await it.own_token("svc", client_secret=new)

    run(tmp_path, story)


@pytest.mark.parametrize("name", ["", "\0", "é", "a\nb", "\ud800"])
def test_malformed_client_ids_are_not_looked_up(tmp_path: Path, name: str) -> None:
    async def story(it: Harness) -> None:
        assert await ClientDirectory(it.foundation.store).find(name) is None

    run(tmp_path, story)


def test_cache_of_clients_is_bounded_and_excludes_unknown_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 3)

    async def story(it: Harness) -> None:
        directory = ClientDirectory(it.foundation.store)
        first = await it.client("c0")

        def copies(tx: Transaction) -> None:
            for number in range(1, 8):
                tx.clients.register(replace(first, id=f"c{number}"))

        await it.write(copies)
        for number in range(8):
            client = await directory.find(f"c{number}")
            assert client is not None
            assert client.id == f"c{number}"
            assert await directory.find(f"c{number}") is client
            assert await directory.find(f"unknown{number}") is None
            assert len(directory._known) <= 3

    run(tmp_path, story)


def test_stale_worker_issues_nothing_to_a_disabled_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(_: ClientDirectory) -> None:
        """Another process, half a second before it looks again."""

    async def story(it: Harness) -> None:
        client = await it.client("svc", grant_types=("authorization_code", "client_credentials"))
        await it.own_token("svc")
        code = await it.code("svc")
        monkeypatch.setattr(ClientDirectory, "compare", deaf)
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        answer = await it.token("svc", grant_type="client_credentials")
        answer.refused(401, "invalid_client")
        (await it.exchange("svc", code)).refused(401, "invalid_client")

    run(tmp_path, story)


def test_enabled_client_gets_tokens_from_a_process_with_a_stale_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("svc", grant_types=("authorization_code", "client_credentials"))
        await it.own_token("svc")
        code = await it.code("svc")

        def unchanged(_: object) -> int:
            return 7

        for engine in (Postgres, SQLite):
            # Another process, half a second before it looks again.
            monkeypatch.setattr(engine, "changed", unchanged)
        await it.own_token("svc")
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        off = replace(client, disabled_at=it.clock.now)
        assert await it.write(lambda tx: registrar.enable(tx, off, it.clock.now))
        (await it.exchange("svc", code)).refused(400, "invalid_grant")
        assert (await it.exchange("svc", await it.code("svc"))).status == 200
        await it.own_token("svc")

    run(tmp_path, story, database_url)


def test_unknown_client_and_wrong_secret_do_the_same_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits: list[bool] = []
    find = Clients.find

    def counted(self: Clients, client_id: str) -> Client | None:
        client = find(self, client_id)
        hits.append(client is not None)
        return client

    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        await it.own_token("svc")
        monkeypatch.setattr(Clients, "find", counted)
        reads: dict[str, list[list[bool]]] = {"svc": [], "nobody": []}
        for _ in range(40):
            for client_id, seen in reads.items():
                hits.clear()
                form = {"grant_type": "client_credentials", "client_secret": "w" * 40}
                body = urlencode({**form, "client_id": client_id}).encode()
                await it.call("POST", "/oauth/token", body, FORM)
                seen.append(sorted(hits))
        assert reads["svc"] == reads["nobody"] == [[False, True]] * 40

    run(tmp_path, story)


def test_cached_client_is_current_until_it_is_changed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("svc", grant_types=("client_credentials",))
        directory = ClientDirectory(it.foundation.store)
        client = await directory.find("svc")
        assert client is not None
        assert await it.read(lambda tx: directory.is_current(tx, client))
        twin = replace(client)
        assert not await it.read(lambda tx: directory.is_current(tx, twin))
        registrar = it.foundation.registrar("test")

        def change(tx: Transaction) -> bool:
            assert registrar.disable(tx, client, it.clock.now)
            # Within the transaction that changes it, and before anybody else can know.
            return directory.is_current(tx, client)

        assert not await it.write(change)
        assert not await it.read(lambda tx: directory.is_current(tx, client))
        again = await directory.find("svc")
        assert again is not None
        assert await it.read(lambda tx: directory.is_current(tx, again))

    run(tmp_path, story)
