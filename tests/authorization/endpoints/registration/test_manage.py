"""The registration access token: reads, replaces, removes one client, and no other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.endpoints.registration.registering import PLAIN, Registry, run
from tests.support.asgi import Answer, basic
from tests.support.cases import case
from tests.support.harness import CALLBACK
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.background.maintenance import sweep_all
from valetkey.authorization.model.client import Client
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.kernel.replace import replace

_BOTH = ("authorization_code", "refresh_token", "client_credentials")


def _asks(record: dict[str, Any], **changes: object) -> dict[str, object]:
    """What the application sends to replace its record."""
    return {**PLAIN, "client_id": record["client_id"], **changes}


async def _sweep(it: Registry) -> None:
    sweeps = it.service.foundation.self_registrar().sweeps
    await sweep_all(it.service.foundation.store, it.service.clock.now, sweeps)


async def _own_token(it: Registry, record: dict[str, Any], secret: str = "") -> Answer:
    proof = basic(str(record["client_id"]), secret or str(record["client_secret"]))
    return await it.service.post("/oauth/token", {"grant_type": "client_credentials"}, proof)


async def _change(it: Registry, client_id: str, **fields: Any) -> None:
    """What an operator does to it."""
    registrar = it.service.foundation.registrar("test")

    def work(tx: Transaction) -> None:
        client = tx.clients.find(client_id)
        assert client is not None
        if fields.pop("disabled", False):
            assert registrar.disable(tx, client, it.service.clock.now)

    await it.service.write(work)


def test_update_replaces_all_client_metadata(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered(
            logo_uri="https://app.example/logo", contacts=["a@b"], default_max_age=5
        )
        asks = _asks(record, client_name="Plotter", client_secret=record["client_secret"])
        answer = await it.manage(record, "PUT", asks)
        assert answer.status == 200, answer.body
        response = answer.json
        assert response["client_name"] == "Plotter"
        assert not {"logo_uri", "contacts", "default_max_age", "client_secret"} & response.keys()
        assert response["registration_access_token"] == record["registration_access_token"]
        assert (await it.manage(record)).json == response
        events = [event.name for event in await it.service.event_records()]
        assert events == ["client.changed"]

    run(tmp_path, story, database_url)


_INVALID_CHANGES: tuple[tuple[dict[str, object], str], ...] = (
    ({"client_id": None}, "invalid_client_metadata"),
    ({"client_id": "resource-server"}, "invalid_client_metadata"),
    ({"client_secret": "another"}, "invalid_client_metadata"),
    ({"client_secret": 5}, "invalid_client_metadata"),
    ({"client_secret_expires_at": 0}, "invalid_client_metadata"),
    ({"registration_access_token": "x"}, "invalid_client_metadata"),
    ({"redirect_uris": ["http://app.example/"]}, "invalid_redirect_uri"),
    ({"redirect_uris": None}, "invalid_redirect_uri"),
    ({"scope": ["write"]}, "invalid_client_metadata"),
    ({"grant_types": ["password"]}, "invalid_client_metadata"),
    ({"software_statement": "a.b.c"}, "unapproved_software_statement"),
    ({"client_name": "Valetkey"}, "invalid_client_metadata"),
)


def test_invalid_update_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        for changes, code in _INVALID_CHANGES:
            with case(changes, code):
                record = await it.registered()
                before = (await it.manage(record)).json
                (await it.manage(record, "PUT", _asks(record, **changes))).refused(400, code)
                assert (await it.manage(record)).json == before
                (await it.manage(record, "PUT", "text")).refused(400, "invalid_client_metadata")

    run(tmp_path, story)


def test_secret_is_issued_and_removed_with_the_authentication_method(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        grants = ["client_credentials"]
        record = await it.registered(grant_types=grants)
        assert (await _own_token(it, record)).status == 200
        signed = _asks(record, grant_types=grants, id_token_signed_response_alg="HS256")
        response = (await it.manage(record, "PUT", signed)).json
        # The old one cannot be read again, and so cannot sign.
        assert response["client_secret"] != record["client_secret"]
        (await _own_token(it, record)).refused(401, "invalid_client")
        assert (await _own_token(it, record, str(response["client_secret"]))).status == 200
        assert "client_secret" not in (await it.manage(record, "PUT", signed)).json
        public = _asks(record, token_endpoint_auth_method="none")
        bare = (await it.manage(record, "PUT", public)).json
        assert not {"client_secret", "client_secret_expires_at"} & bare.keys()
        again = (await it.manage(record, "PUT", _asks(record))).json
        assert again["client_secret"] != response["client_secret"]
        assert again["client_secret_expires_at"] == 0

    run(tmp_path, story, grant_types=_BOTH)


def test_scopes_given_by_an_operator_survive_an_update(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered()
        registrar = it.service.foundation.registrar("test")

        def work(tx: Transaction) -> None:
            client = tx.clients.find(record["client_id"])
            assert client is not None
            metadata = metadata_of(client)
            wider = replace(
                metadata,
                scopes=(*metadata.scopes, "notes:read"),
                grant_types=("authorization_code", "refresh_token", "client_credentials"),
                name="Valetkey Printer",
                description="Checked.",
                requires_pkce=True,
            )
            assert isinstance(registrar.change(tx, client, wider, it.service.clock.now), Client)

        await it.service.write(work)
        asks = _asks(
            record,
            client_name="Valetkey Printer",
            scope="openid notes:read",
            grant_types=["authorization_code", "client_credentials"],
        )
        answer = await it.manage(record, "PUT", asks)
        assert answer.status == 200, answer.body
        assert answer.json["scope"] == "openid notes:read"
        stored = await it.service.read(lambda tx: tx.clients.find(record["client_id"]))
        assert stored is not None
        assert stored.requires_pkce
        assert stored.description == "Checked."

    run(tmp_path, story)


def test_deleted_client_has_no_access_and_its_id_is_not_reused(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered(grant_types=list(_BOTH))
        client_id = str(record["client_id"])
        token = (await _own_token(it, record)).text("access_token")
        code = await it.service.code(client_id, "openid")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
        }
        proof = basic(client_id, str(record["client_secret"]))
        tokens = await it.service.post("/oauth/token", form, proof)
        assert tokens.status == 200, tokens.body
        assert (await it.service.introspect(tokens.text("access_token")))["active"]
        answer = await it.manage(record, "DELETE")
        assert (answer.status, answer.body) == (204, b"")
        for method in ("GET", "PUT", "DELETE"):
            (await it.manage(record, method)).refused(401, "invalid_token")
        (await _own_token(it, record)).refused(401, "invalid_client")
        for access_token in (token, tokens.text("access_token")):
            assert await it.service.introspect(access_token) == {"active": False}
        it.service.clock.forward(60)
        await _sweep(it)
        (await _own_token(it, record)).refused(401, "invalid_client")
        assert await it.service.read(lambda tx: tx.clients.find(client_id)) is None
        assert await it.service.introspect(token) == {"active": False}
        with pytest.raises(AssertionError, match="taken"):
            await it.service.client(client_id)
        events = [event.name for event in await it.service.event_records()]
        assert events.count("client.removed") == events.count("grant.revoked") == 1

    run(tmp_path, story, database_url, grant_types=_BOTH)


def test_parallel_deletions_of_a_client_succeed_once(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered()
        answers = await asyncio.gather(*(it.manage(record, "DELETE") for _ in range(16)))
        assert sorted(answer.status for answer in answers) == [204] + [401] * 15
        assert (await it.service.events()).count("client.removed") == 1

    run(tmp_path, story, database_url)


def test_dc_07_token_manages_only_its_own_enabled_client(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        mine, other = await it.registered(), await it.registered()
        for token in (other["registration_access_token"], "x", "vk_rg_x", mine["client_secret"]):
            for method, metadata in (("GET", None), ("PUT", _asks(mine)), ("DELETE", None)):
                answer = await it.manage(mine, method, metadata, str(token))
                answer.refused(401, "invalid_token")
                assert "www-authenticate" in answer.headers
        await _change(it, str(mine["client_id"]), disabled=True)
        for method, metadata in (("GET", None), ("PUT", _asks(mine)), ("DELETE", None)):
            (await it.manage(mine, method, metadata)).refused(401, "invalid_token")
        stored = await it.service.read(lambda tx: tx.clients.find(str(mine["client_id"])))
        assert stored is not None
        assert stored.disabled_at is not None
        assert (await it.manage(other)).status == 200

    run(tmp_path, story)


def test_registration_token_does_not_manage_unregistered_clients(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered()
        for client_id in ("resource-server", "nobody", "%00", "a%20b", "é"):
            answer = await it.manage({**record, "client_id": client_id})
            answer.refused(401, "invalid_token")

    run(tmp_path, story)


def test_unused_registered_clients_are_removed(database_url: str, tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        idle = await it.registered(client_name="Idle")
        used = await it.registered(client_name="Used", grant_types=["client_credentials"])
        it.service.clock.forward(days(20))
        assert (await _own_token(it, used)).status == 200
        it.service.clock.forward(days(11))
        await _sweep(it)
        (await it.manage(idle)).refused(401, "invalid_token")
        assert (await it.manage(used)).status == 200
        assert (await _own_token(it, used)).status == 200
        it.service.clock.forward(days(31))
        await _sweep(it)
        (await _own_token(it, used)).refused(401, "invalid_client")
        because = [event.data for event in await it.service.event_records() if "remo" in event.name]
        assert len(because) == 2
        assert all("unused" in data for data in because)
        it.service.clock.forward(days(1))
        await _sweep(it)
        assert await it.service.read(lambda tx: len(tx.clients.page("", 9))) == 1

    run(tmp_path, story, database_url, grant_types=_BOTH)


def test_updates_that_cause_requests_to_other_servers_are_rate_limited(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        record = await it.registered()
        kept = {name: record[name] for name in ("client_id", "redirect_uris", "client_name")}
        asks = {**kept, "sector_identifier_uri": "https://nowhere.invalid/sector"}
        for _ in range(2):
            answer = await it.manage(record, "PUT", asks)
            answer.refused(400, "invalid_client_metadata")
        answer = await it.manage(record, "PUT", asks)
        answer.refused(429, "slow_down")
        assert int(answer.headers["retry-after"]) > 0
        # What asks nobody costs nobody anything.
        assert (await it.manage(record, "PUT", kept)).status == 200

    run(tmp_path, story, registrations_per_hour=3)


def test_client_cannot_change_its_sector(tmp_path: Path) -> None:
    async def story(it: Registry) -> None:
        elsewhere = ["https://victim.example/cb"]
        pairwise = await it.registered(subject_type="pairwise")
        public = await it.registered()
        for record, changes in (
            (pairwise, {"subject_type": "pairwise", "redirect_uris": elsewhere}),
            (pairwise, {"subject_type": "public"}),
            (public, {"subject_type": "pairwise", "redirect_uris": elsewhere}),
        ):
            answer = await it.manage(record, "PUT", _asks(record, **changes))
            assert answer.status == 400, answer.body
            assert "register another client" in answer.text("error_description")
        moved = ["https://app.example/elsewhere"]
        changes = {"subject_type": "pairwise", "redirect_uris": moved}
        assert (await it.manage(pairwise, "PUT", _asks(pairwise, **changes))).status == 200
        # The operator may do so, knowing that people get other names.
        registrar = it.service.foundation.registrar("cli")

        def work(tx: Transaction) -> None:
            client = tx.clients.find(str(pairwise["client_id"]))
            assert client is not None
            metadata = replace(metadata_of(client), redirect_uris=tuple(elsewhere))
            changed = registrar.change(tx, client, metadata, it.service.clock.now)
            assert isinstance(changed, Client)
            assert changed.openid.sector == "victim.example"

        await it.service.write(work)

    run(tmp_path, story)
