"""Secrets: shown once, two side by side, known by their last letters and their last use."""

from pathlib import Path

from tests.authorization.endpoints.developer.developers import (
    developer,
    found,
    join,
    registered,
    shown,
    text_of,
)
from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import ALICE, BOB, NATIVE, run
from valetkey.authorization.client_authentication import SecretUses
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.portal.rules.apps import state_of
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.kernel.moment import Instant, days, hours, minutes
from valetkey.kernel.replace import replace


async def _works(it: Harness, client_id: str, secret: str) -> bool:
    client = await found(it, client_id)
    print_ = it.server.keyring.fingerprint_key.fingerprint(secret_purpose(client_id), secret)
    return any(s.fingerprint == print_ and s.is_live(it.clock.now) for s in client.secrets)


def test_a_secret_is_changed_without_an_outage(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, page = await registered(it, alice)
        old, path = shown(page, "client-secret"), f"/developer/apps/{app.id}/secrets"
        page = await alice.get(path)
        assert f"vk_cs_…{old[-4:]}" in text_of(page)
        page = await alice.submit(page, "new-secret", overlap="24h")
        new = shown(page, "client-secret")
        assert "Deploy it within 24 hours; then the old secret expires" in text_of(page)
        assert await _works(it, app.id, old)
        assert await _works(it, app.id, new)
        listed = await alice.get(path)
        assert new not in listed.body
        assert f"vk_cs_…{new[-4:]}" in text_of(listed)
        assert "Expires in 24 hours" in text_of(listed)
        assert "new-secret" not in listed.body
        it.clock.forward(days(1))
        assert not await _works(it, app.id, old)
        assert await _works(it, app.id, new)

    run(tmp_path, story, database_url)


def test_old_secret_expires_after_the_chosen_overlap(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        for overlap, after in (("1h", hours(1)), ("7d", days(7)), ("open", None), ("odd", days(1))):
            app, page = await registered(it, alice, name=f"App {overlap}")
            old = shown(page, "client-secret")
            path = f"/developer/apps/{app.id}/secrets"
            await alice.submit(await alice.get(path), "new-secret", overlap=overlap)
            print_ = it.server.keyring.fingerprint_key.fingerprint(secret_purpose(app.id), old)
            client = await found(it, app.id)
            kept = next(secret for secret in client.secrets if secret.fingerprint == print_)
            assert kept.expires_at == (None if after is None else it.clock.now + after)

    run(tmp_path, story)


def test_repeated_or_stale_form_creates_no_third_secret(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.MEMBER)
        path = f"/developer/apps/{app.id}/secrets"
        form, theirs = await alice.get(path), await bob.get(path)
        page = await alice.submit(form, "new-secret", overlap="open")
        for again in (
            await alice.submit(form, "new-secret"),
            await bob.submit(theirs, "new-secret"),
        ):
            assert again.status == 409
            assert "nothing was done" in text_of(again)
            assert "client-secret" not in again.body
        secrets = await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
        assert len(secrets) == 2
        full = await bob.submit(theirs, "new-secret", seen=state_of(secrets))
        assert full.status == 409
        assert "The app already has two active secrets" in text_of(full)
        assert await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now)) == secrets
        assert shown(page, "client-secret") not in (await alice.get(path)).body

    run(tmp_path, story, database_url)


def test_ended_secret_stops_working_and_the_event_names_the_actor(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, page = await registered(it, alice)
        secret, path = shown(page, "client-secret"), f"/developer/apps/{app.id}/secrets"
        (active_secret,) = await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
        ask = await alice.get(f"{path}/end", secret=active_secret.id)
        assert "This is the only active secret" in text_of(ask)
        done = await alice.submit(ask, "end-secret")
        assert done.location == f"{path}?ended=1"
        assert not await _works(it, app.id, secret)
        page = await alice.get(done.location)
        assert "No active secret" in text_of(page)
        assert (await alice.submit(ask, "end-secret")).location == path
        assert (await alice.get(f"{path}/end", secret=active_secret.id)).location == path
        assert (await alice.get(f"{path}/end", secret="ü")).location == path
        events = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 100))
        (ended,) = [event for event in events if event.name == "client_secret.ended"]
        assert ended.done_by == f"user {ALICE.uid}"
        page = await alice.submit(page, "new-secret")
        assert "Deploy it; until then the app gets no tokens" in text_of(page)

    run(tmp_path, story, database_url)


def test_last_use_of_a_secret_is_written_once_an_hour(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/secrets"
        (active_secret,) = await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
        assert "Never used" in text_of(await alice.get(path))
        uses = SecretUses()
        uses.record(active_secret.id, it.clock.now)
        await uses.flush(it.store)
        first = it.clock.now
        it.clock.forward(minutes(9))
        uses.record(active_secret.id, it.clock.now)
        await uses.flush(it.store)
        assert "Last used 9 minutes ago" in text_of(await alice.get(path))
        it.clock.forward(hours(1))
        uses.record(active_secret.id, it.clock.now)
        uses.record("gone", it.clock.now)
        await uses.flush(it.store)
        await it.store.write(lambda tx: tx.secrets.note_uses({active_secret.id: first}))
        (after,) = await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
        assert after.last_used_at == it.clock.now

    run(tmp_path, story, database_url)


def test_secret_sent_in_a_url_is_reported_until_it_is_replaced(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/secrets"
        await it.store.write(lambda tx: tx.clients.count_query_credentials(app.id, it.clock.now))
        page = await alice.get(path)
        assert "was sent in the URL of 1 request" in text_of(page)
        it.clock.forward(5)
        await alice.submit(page, "new-secret", overlap="1h")
        assert "A secret of this app was sent in the URL of" in text_of(await alice.get(path))
        (old,) = [
            s
            for s in await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
            if s.expires_at
        ]
        await alice.submit(await alice.get(f"{path}/end", secret=old.id), "end-secret")
        assert "A secret of this app was sent in the URL of" not in text_of(await alice.get(path))

    run(tmp_path, story)


def test_secrets_page_requires_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/secrets"
        form = await alice.get(path)
        (active_secret,) = await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))
        ask = await alice.get(f"{path}/end", secret=active_secret.id)
        it.clock.forward(minutes(11))
        answers: list[Answer] = [
            await alice.get(path),
            await alice.get(f"{path}/end", secret=active_secret.id),
            await alice.submit(form, "new-secret"),
            await alice.submit(ask, "end-secret"),
        ]
        for answer in answers:
            assert answer.location.removesuffix("&repeat=yes") == f"/account/confirm?to={path}"
        assert len(await it.store.read(lambda tx: tx.secrets.usable(app.id, it.clock.now))) == 1

    run(tmp_path, story)


def test_secrets_page_of_a_public_client_is_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.change(replace(NATIVE, name="Pocket"))
        await join(it, "nat1", ALICE)
        alice = await developer(it)
        assert "secrets" not in (await alice.get("/developer/apps/nat1")).body
        assert (await alice.get("/developer/apps/nat1/secrets")).status == 404

    run(tmp_path, story)
