"""Sign-in providers that administrators added: bounds, secrets, and what they must not reach."""

import asyncio
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import Harness, run
from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.providers.model import ProviderWanted, StoredProvider
from valetkey.authorization.providers.operations import (
    CHANGE_PROVIDER,
    CREATE_PROVIDER,
    DELETE_PROVIDER,
    DISABLE_PROVIDER,
    LIST_PROVIDERS,
    READ_PROVIDER,
    TEST_PROVIDER,
    ProviderChange,
    ProviderList,
    ProviderShown,
    ProviderTested,
)
from valetkey.authorization.providers.rules.registry import ProviderFactory, Providers
from valetkey.authorization.providers.settings import (
    MOST,
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.providers.storage import StoredProviders
from valetkey.config.sections.serving import FetchSettings
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret

SECRET = "a secret that nobody may see"
WANTED = ProviderWanted("google", "Google", "us", SECRET, "https://accounts.google.com")
OF_FILE = ProviderSettings("file", "Of the file", ProviderKind.OPENID, "https://file.example", "us")
FEDERATION = FederationSettings((OF_FILE,), Secret("file=secret"))


async def created(it: Harness, wish: ProviderWanted = WANTED) -> ProviderShown:
    shown = await it.perform(CREATE_PROVIDER, {}, wish)
    assert isinstance(shown, ProviderShown)
    return shown


async def faults(it: Harness, wish: ProviderWanted) -> list[str]:
    with pytest.raises(InvalidInput) as invalid:
        await created(it, wish)
    return sorted(fault.field for fault in invalid.value.faults)


async def probe(it: Harness, name: str) -> ProviderTested:
    outcome = await it.perform(TEST_PROVIDER, {"provider": name})
    assert isinstance(outcome, ProviderTested)
    return outcome


async def stored(it: Harness) -> list[StoredProvider]:
    return list(await it.read(lambda tx: StoredProviders.of(tx).all()))


def test_one_of_64_parallel_requests_adds_the_provider(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        tries = await asyncio.gather(*(created(it) for _ in range(64)), return_exceptions=True)
        made = [result for result in tries if isinstance(result, ProviderShown)]
        assert len(made) == 1
        assert all(isinstance(result, (ProviderShown, InvalidInput)) for result in tries)
        assert (await it.events()).count("provider.created") == 1
        ended = await asyncio.gather(
            *(it.perform(DELETE_PROVIDER, {"provider": "google"}) for _ in range(16)),
            return_exceptions=True,
        )
        assert sum(not isinstance(result, BaseException) for result in ended) == 1
        assert (await it.events()).count("provider.removed") == 1

    run(tmp_path, story, database=database_url)


def test_client_secret_is_stored_sealed_and_shown_nowhere(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        shown = await created(it)
        change = ProviderChange(client_secret=f"{SECRET}, a new one", name="G")
        changed = await it.perform(CHANGE_PROVIDER, {"provider": "google"}, change)
        listed = await it.perform(LIST_PROVIDERS, {})
        read = await it.perform(READ_PROVIDER, {"provider": "google"})
        (kept,) = await stored(it)
        events = [event.data for event in await it.event_records()]
        for output in (shown, changed, listed, read, kept, events):
            assert SECRET not in repr(output)
        factory = ProviderFactory.from_services(it.foundation.services)
        provider = factory.of_stored(kept)
        assert provider is not None
        assert SECRET not in repr(provider)
        # Moved to another row it does not open.
        assert (
            ProviderFactory.from_services(it.foundation.services).of_stored(
                replace(kept, id="other")
            )
            is None
        )
        assert any('"client_secret"' in data for data in events)

    run(tmp_path, story)


def test_empty_secret_keeps_the_stored_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await created(it)
        (before,) = await stored(it)
        await it.perform(
            CHANGE_PROVIDER, {"provider": "google"}, ProviderChange(client_secret="", name="G")
        )
        (after,) = await stored(it)
        assert after == replace(before, name="G")
        await it.perform(CHANGE_PROVIDER, {"provider": "google"}, ProviderChange(name="G"))
        assert (await it.events()).count("provider.changed") == 1

    run(tmp_path, story)


def test_invalid_and_taken_values_are_refused_with_their_fields(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await created(it)
        cases: tuple[tuple[str, Any], ...] = (
            ("id", "Upper"),
            ("id", "new"),
            ("id", ""),
            ("id", "a/b"),
            ("issuer", "http://accounts.example"),
            ("issuer", "javascript:alert(1)"),
            ("issuer", "https://[::ffff:127.0.0.1]"),
            ("issuer", "https://accounts.example/?"),
            ("issuer", "https://file.example"),
            ("issuer", ""),
            ("name", " "),
            ("client_id", ""),
            ("client_secret", ""),
            ("scopes", ["two words"]),
            ("keep_claims", ['"']),
        )
        for field, value in cases:
            fine = replace(WANTED, id="another", issuer="https://another.example")
            assert await faults(it, replace(fine, **{field: value})) == [field], (field, value)
        assert await faults(it, WANTED) == ["id", "issuer"]
        assert await faults(it, replace(WANTED, id="file", issuer="https://x.example")) == ["id"]
        for number in range(MOST - 2):
            issuer = f"https://{number}.example"
            await created(it, replace(WANTED, id=f"p{number}", issuer=issuer))
        assert await faults(it, replace(WANTED, id="last", issuer="https://last.example")) == ["id"]

    run(tmp_path, story, features=(FEDERATION,))


def test_provider_of_the_file_is_read_only_and_replaces_a_stored_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await created(it)
        for operation in (CHANGE_PROVIDER, DISABLE_PROVIDER, DELETE_PROVIDER):
            body = ProviderChange(name="x") if operation.input else None
            with pytest.raises(Refused) as refused:
                await it.perform(operation, {"provider": "file"}, body)
            assert refused.value.refusal.code is ErrorCode.CONFLICT
        # The file gets one with the same issuer, under another id.
        same = replace(OF_FILE, id="other", issuer=WANTED.issuer)
        settings = replace(
            it.settings, features=(FederationSettings((same,), Secret("other=secret")),)
        )
        factory = replace(ProviderFactory.from_services(it.foundation.services), settings=settings)
        current = Providers(factory)
        await current.refresh(it.foundation.store)
        assert [provider.settings.id for provider in current] == ["other"]

        it.foundation = replace(it.foundation, settings=settings)
        assert factory.is_hidden((await stored(it))[0])
        listed = await it.perform(LIST_PROVIDERS, {})
        assert isinstance(listed, ProviderList)
        assert [(provider.id, provider.origin, provider.state) for provider in listed.items] == [
            ("other", "file", "enabled"),
            ("google", "stored", "hidden"),
        ]

    run(tmp_path, story, features=(FEDERATION,))


@pytest.mark.parametrize(
    "issuer",
    [
        "https://127.0.0.1",
        "https://localhost",
        "https://[::1]",
        "https://10.0.0.1",
        "https://169.254.169.254",
        "https://127.0.0.1.nip.invalid",
        "http://127.0.0.1:8400",
    ],
)
def test_provider_test_cannot_reach_internal_addresses(tmp_path: Path, issuer: str) -> None:
    async def story(it: Harness) -> None:
        await created(it, replace(WANTED, issuer=issuer))
        outcome = await probe(it, "google")
        assert not outcome.works
        assert outcome.check == "federation.discovery"
        assert outcome.received.startswith("fetch.")

    run(tmp_path, story)


def test_provider_with_an_undecryptable_secret_is_skipped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await created(it)
        (kept,) = await stored(it)
        broken = replace(kept, sealed=f"{kept.sealed[:-4]}AAAA")
        assert await it.write(lambda tx: StoredProviders.of(tx).change(broken))
        current = Providers(ProviderFactory.from_services(it.foundation.services))
        await current.refresh(it.foundation.store)
        assert current.all == ()
        with pytest.raises(Refused) as refused:
            await probe(it, "google")
        assert refused.value.refusal.check == "provider.unreadable"

    run(tmp_path, story, fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)))
