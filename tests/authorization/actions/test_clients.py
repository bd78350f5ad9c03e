"""The register of clients: rules before writing, one event for each change, no lost update."""

import asyncio
from pathlib import Path

import pytest

from tests.support.harness import ADA, CALLBACK, SECRET, Harness, run
from valetkey.authorization.actions.clients import changed_fields, metadata_of
from valetkey.authorization.actions.records import keep_registered
from valetkey.authorization.model.client import RESOURCE_SERVER, Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.moment import days
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

_KEYS = KeySet.of(SigningKey.generate(Algorithm.ES256).public).document().decode()
_PLAIN = ClientMetadata("Printer", redirect_uris=(CALLBACK,), scopes=("notes:read",))


async def _register(
    it: Harness, metadata: ClientMetadata, client_id: str = "web", secret: str | None = SECRET
) -> Client | set[str]:
    registrar = it.foundation.registrar("test")
    outcome = await it.write(
        lambda tx: registrar.register(
            tx,
            metadata,
            it.clock.now,
            client_id=client_id,
            secret=None if secret is None else Secret(secret),
        )
    )
    return {fault.field for fault in outcome} if isinstance(outcome, tuple) else outcome


@pytest.mark.parametrize(
    "client_id",
    ["", "a b", "a:b", "é", "1001", "a\0", "x" * 101, 'a"', "a<b", "a\\b", RESOURCE_SERVER],
)
def test_malformed_and_reserved_client_ids_are_refused(tmp_path: Path, client_id: str) -> None:
    async def story(it: Harness) -> None:
        assert await _register(it, _PLAIN, client_id) == {"client_id"}

    run(tmp_path, story)


@pytest.mark.parametrize("secret", [None, "", "short", "s" * 31, "s" * 501, "é" * 40, "s\n" * 20])
def test_client_without_keys_requires_a_valid_secret(tmp_path: Path, secret: str | None) -> None:
    async def story(it: Harness) -> None:
        assert await _register(it, _PLAIN, secret=secret) == {"client_secret"}
        keys = replace(_PLAIN, key_set=_KEYS)
        assert await _register(it, keys) == {"client_secret"}
        assert isinstance(await _register(it, keys, secret=None), Client)

    run(tmp_path, story)


def test_unchanged_metadata_of_a_client_changes_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        registrar = it.foundation.registrar("test")
        for client_id, metadata in (("one", _PLAIN), ("two", replace(_PLAIN, key_set=_KEYS))):
            secret = SECRET if not metadata.key_set else None
            client = await _register(it, metadata, client_id, secret)
            assert isinstance(client, Client)
            again = await it.write(
                lambda tx, c=client: registrar.change(tx, c, metadata_of(c), it.clock.now)  # type: ignore[misc]
            )
            assert again is client
        assert "client.changed" not in await it.events()

    run(tmp_path, story)


def test_change_returns_the_changed_fields_and_records_one_event(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await _register(it, replace(_PLAIN, key_set=_KEYS), secret=None)
        assert isinstance(client, Client)
        other = KeySet.of(SigningKey.generate(Algorithm.RS256).public).document().decode()
        metadata = replace(metadata_of(client), name="New", key_set=other)
        registrar = it.foundation.registrar("test")
        it.clock.forward(1)
        changed = await it.write(lambda tx: registrar.change(tx, client, metadata, it.clock.now))
        assert isinstance(changed, Client)
        assert changed.changed_at == it.clock.now
        assert changed_fields(client, changed) == ("name", "key_set")
        wrong = replace(metadata, name="", redirect_uris=("x",))
        faults = await it.write(lambda tx: registrar.change(tx, changed, wrong, it.clock.now))
        assert isinstance(faults, tuple)
        assert {fault.field for fault in faults} == {"name", "redirect_uris/0"}
        gone = replace(changed, id="gone")
        refusal = await it.write(lambda tx: registrar.change(tx, gone, _PLAIN_KEYED, it.clock.now))
        assert refusal == (MetadataError("client_id", "a client that is registered"),)
        assert await it.events() == ["client.changed"]

    run(tmp_path, story)


_PLAIN_KEYED = replace(_PLAIN, key_set=_KEYS)


def test_disabling_a_client_ends_its_grants_for_good_and_records_one_event(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        tokens = [(await it.tokens("web")).text("access_token") for _ in range(2)]
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        off = await it.read(lambda tx: tx.clients.find("web"))
        assert off is not None
        assert not await it.write(lambda tx: registrar.disable(tx, off, it.clock.now))
        for token in tokens:
            assert await it.introspect(token) == {"active": False}
        assert await it.write(lambda tx: registrar.enable(tx, off, it.clock.now))
        on = await it.read(lambda tx: tx.clients.find("web"))
        assert on is not None
        assert not await it.write(lambda tx: registrar.enable(tx, on, it.clock.now))
        for token in tokens:
            assert await it.introspect(token) == {"active": False}
        event_names = ["client.disabled", "client.enabled", "grant.revoked", "grant.revoked"]
        assert sorted(e for e in await it.events() if e != "code.redeemed") == event_names

    run(tmp_path, story)


def test_concurrent_change_does_not_enable_a_disabled_client(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        registrar = it.foundation.registrar("test")

        def disable(client_id: str, tx: Transaction) -> bool:
            client = tx.clients.find(client_id)
            assert client is not None
            return registrar.disable(tx, client, it.clock.now)

        for number in range(8):
            client_id = f"c{number}"
            await it.client(client_id, grant_types=("client_credentials",))
            token = await it.own_token(client_id)
            changes = (
                it.ask(token, "client", "change", changes={"description": f"{attempt}"})
                for attempt in range(4)
            )
            await asyncio.gather(
                *changes,
                it.write(lambda tx, c=client_id: disable(c, tx)),  # type: ignore[misc]
            )
            client = await it.read(lambda tx, c=client_id: tx.clients.find(c))  # type: ignore[misc]
            assert client is not None
            assert client.disabled_at is not None

    run(tmp_path, story, database_url)


def test_secret_is_not_issued_to_client_with_keys_or_if_too_short(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        keyed = await _register(it, replace(_PLAIN, key_set=_KEYS), "keyed", None)
        plain = await _register(it, _PLAIN, "plain")
        assert isinstance(keyed, Client)
        assert isinstance(plain, Client)
        registrar = it.foundation.registrar("test")
        for client, secret in ((keyed, SECRET), (plain, "short")):
            faults = await it.write(
                lambda tx, c=client, s=secret: registrar.issue_secret(  # type: ignore[misc]
                    tx, c, Secret(s), it.clock.now, others_live=None
                )
            )
            assert [fault.field for fault in faults] == ["client_secret"]

    run(tmp_path, story)


def test_reinstated_credential_does_not_expire_with_its_overlap(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        registrar = it.foundation.registrar("start")
        first, second = Secret("a" * 40), Secret("b" * 40)

        async def keep(credential: Secret) -> None:
            await it.write(lambda tx: keep_registered(tx, registrar, credential, it.clock.now))

        for credential in (first, second, first, first):
            await keep(credential)
        it.clock.forward(days(2))
        for text, status in (("a" * 40, 200), ("b" * 40, 401)):
            form = {"client_id": RESOURCE_SERVER, "client_secret": text, "token": "x"}
            assert (await it.post("/oauth/introspect", form)).status == status
        with pytest.raises(OperatorError, match="32"):
            await keep(Secret("short"))

    run(tmp_path, story)


def test_grants_begun_while_client_was_disabled_stay_dead(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        client = await it.client("web")
        await it.tokens("web")
        (grant,) = await it.read(lambda tx: tx.grants.live_of_user(ADA, it.clock.now, 9))
        registrar = it.foundation.registrar("test")
        assert await it.write(lambda tx: registrar.disable(tx, client, it.clock.now))
        off = await it.read(lambda tx: tx.clients.find("web"))
        assert off is not None
        # As a transaction that overlapped with this one would have left it.
        assert await it.write(lambda tx: tx.grants.issue(replace(grant, id="gr_late")))
        assert await it.write(lambda tx: registrar.enable(tx, off, it.clock.now))
        reach = await it.read(lambda tx: tx.grants.usage_of("web", it.clock.now))
        assert reach.authorizations == 0

    run(tmp_path, story)
