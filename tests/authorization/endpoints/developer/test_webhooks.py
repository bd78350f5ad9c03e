"""Webhooks of apps: their events and nobody else's, and what these say of users."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.authorization.endpoints.developer.developers import developer, join, registered
from tests.support.harness import Harness
from tests.support.plain_browser import Browser
from tests.support.visitors import BOB, run
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.model.client import Client, TeamRole
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.event.grants import ClientDisabled, ConsentGiven
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.webhooks.jobs import WebhookDelivery, read_wanted
from valetkey.authorization.webhooks.model import APP_EVENTS, MOST_WEBHOOKS_OF_APP
from valetkey.authorization.webhooks.storage import SubscribedEvents, Webhooks
from valetkey.fetch.outbound import Fetched
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import Runtime
from valetkey.sdk import verify_webhook

URL = "https://receiver.example/hook"


async def _create(browser: Browser, client: Client, url: str = URL) -> tuple[str, str]:
    path = f"/developer/apps/{client.id}/webhooks"
    form = await browser.get(f"{path}/new")
    made = await browser.submit(form, "do", url=url)
    assert made.status == 200, made.body
    (secret,) = re.findall(r"whsec_[A-Za-z0-9+/]{43}=", made.body)
    (webhook_id,) = set(re.findall(rf"{path}/(wh_[^\"/]+)\"", made.body))
    return f"{path}/{webhook_id}", secret


async def _happen(it: Harness, *client_ids: str) -> None:
    def work(tx: Transaction) -> None:
        for client_id in client_ids:
            tx.events.add(ConsentGiven(BOB.uid, client_id, "notes:read", (), ()), it.clock.now)
            tx.events.add(ClientDisabled(client_id), it.clock.now)

    await it.store.write(work, done_by=SYSTEM)


def test_app_receives_its_own_events_without_anything_else_about_users(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        other, _ = await registered(it, bob)
        pairwise = replace(app, openid=replace(app.openid, subject_type="pairwise"))
        assert await it.store.write(lambda tx: tx.clients.change(pairwise), done_by=SYSTEM)
        one, secret = await _create(alice, app)
        await _create(bob, other)
        await read_wanted(it.store, it.store.listener(SubscribedEvents))
        assert it.store.listener(SubscribedEvents).accepts("consent.given", app.id)
        for name, client_id in (("access_token.issued", app.id), ("consent.given", "web1")):
            assert not it.store.listener(SubscribedEvents).accepts(name, client_id)
        await _happen(it, app.id, other.id, "web1")
        sent: list[tuple[Mapping[str, str], bytes]] = []

        async def post(url: str, body: bytes, headers: Mapping[str, str]) -> Fetched:
            assert url == URL
            sent.append((headers, body))
            return Fetched(204, "", b"")

        server = it.server
        subjects = Subjects(server.keyring.fingerprint_key)
        runtime = Runtime(lambda: it.clock.now, server.random)
        notices = Notices(server.issuer, it.foundation.outbox)
        delivery = WebhookDelivery(
            it.store.acting(SYSTEM), server.keyring, post, runtime, lambda: 0.0, subjects, notices
        )
        while await delivery.deliver_some(one.rpartition("/")[2]):
            pass
        messages = [
            verify_webhook(headers, body, secret, now=it.clock.now) for headers, body in sent
        ]
        consent = next(message for message in messages if message.type == "consent.given")
        user = await it.store.read(lambda tx: tx.users.find(BOB.uid))
        assert user is not None
        assert consent.data == {
            "client_id": app.id,
            "scope": "notes:read",
            "apis": [],
            "sub": subjects.subject_of(user, pairwise),
        }
        assert consent.data["sub"] != user.subject
        assert {message.data["client_id"] for message in messages} == {app.id}
        assert {message.type for message in messages} <= APP_EVENTS.keys()
        every = b" ".join(body for _, body in sent)
        for secret_of_user in (user.subject, user.email, "done_by", "because", "uid"):
            assert secret_of_user.encode() not in every
        shown = (await alice.get(one)).body
        assert json.loads(sent[0][1])["type"] in shown
        assert consent.id in shown

    run(tmp_path, story, database_url)


def test_webhooks_and_events_of_another_app_are_not_found(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        other, _ = await registered(it, bob)
        mine, _ = await _create(alice, app)
        theirs, _ = await _create(bob, other)
        await _happen(it, other.id)
        # The id of another app's webhook below one's own app, and the other way around.
        crossed = f"/developer/apps/{app.id}/webhooks/{theirs.rpartition('/')[2]}"
        token = (await alice.get(f"{mine}/test")).form("do")[1]["csrf"][0]
        for path in (theirs, crossed):
            for act in ("", "/edit", "/secret", "/delete", "/test", "/replay?event=ev_1"):
                assert (await alice.get(f"{path}{act}")).status == 404
            for act in ("edit", "secret", "delete", "disable", "test", "replay"):
                answer = await alice.post(f"{path}/{act}", {"csrf": token, "url": URL})
                assert answer.status == 404, (path, act)
        page = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        events = [event for event in page if event.client_id == other.id]
        hidden = [event for event in page if event.name not in APP_EVENTS]
        for event in (*events, *hidden):
            form = {"csrf": token, "event": event.id}
            assert (await alice.post(f"{mine}/replay", form)).status == 404
        assert {
            webhook.client_id for webhook in await it.store.read(lambda tx: Webhooks.of(tx).all())
        } == {
            app.id,
            other.id,
        }

    run(tmp_path, story, database_url)


def test_removed_owner_and_member_change_no_webhook(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice, bob = await developer(it), await developer(it, "bob")
        app, _ = await registered(it, alice)
        await join(it, app.id, BOB, TeamRole.OWNER)
        one, _ = await _create(bob, app, f"{URL}/s3cret")
        ask = await bob.get(f"{one}/secret")
        await it.store.write(lambda tx: tx.members.remove(app.id, BOB.uid), done_by=SYSTEM)
        assert (await bob.submit(ask, "do")).status == 404
        await join(it, app.id, BOB, TeamRole.MEMBER)
        assert (await bob.submit(ask, "do")).status == 403
        shown = (await bob.get(one)).body
        assert "https://receiver.example/…" in shown
        assert "s3cret" not in shown
        webhook = await it.store.read(lambda tx: Webhooks.of(tx).find(one.rpartition("/")[2]))
        assert webhook is not None
        assert webhook.previous_sealed is None

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    "url",
    [
        "http://receiver.example/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://localhost/",
        "https://receiver.example:8443/",
        "https://user:x@receiver.example/",
    ],
)
def test_internal_webhook_url_of_an_app_is_refused(url: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        form = await alice.get(f"/developer/apps/{app.id}/webhooks/new")
        assert (await alice.submit(form, "do", url=url)).status == 400
        assert not await it.store.read(lambda tx: Webhooks.of(tx).all())

    run(tmp_path, story)


def test_webhooks_per_app_are_limited_and_need_step_up(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = await developer(it)
        app, _ = await registered(it, alice)
        path = f"/developer/apps/{app.id}/webhooks"
        form = await alice.get(f"{path}/new")
        assert set(re.findall(r'value="([a-z_]+\.[a-z]+)"', form.body)) == APP_EVENTS.keys()
        for _ in range(MOST_WEBHOOKS_OF_APP):
            assert (await alice.submit(form, "do", url=URL)).status == 200
        refused = await alice.submit(form, "do", url=URL)
        assert refused.status == 400
        assert f"{MOST_WEBHOOKS_OF_APP} webhooks already" in refused.body
        unknown = await alice.submit(form, "do", url=URL, events="user.disabled")
        assert unknown.status == 400
        it.clock.forward(3_600)
        assert (await alice.get(path)).status == 200
        stale = await alice.get(f"{path}/new")
        assert (stale.status, "confirm" in stale.location) == (303, True)

    run(tmp_path, story, database_url)
