"""Webhooks in the console: created, tested, changed, rotated, disabled and deleted."""

import re
from pathlib import Path

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import Harness, run
from valetkey.authorization.model.user import Role
from valetkey.authorization.webhooks.model import GONE, MOST_WEBHOOKS, WebhookAttempt
from valetkey.authorization.webhooks.storage import Webhooks

URL = "https://receiver.example/s3cret"
NEW = "/admin/webhooks/new"


async def _only(it: Harness) -> str:
    (webhook,) = await it.read(lambda tx: Webhooks.of(tx).all())
    return f"/admin/webhooks/{webhook.id}"


def test_webhook_is_managed_in_the_console(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        wrong = await do(browser, NEW, url="https://10.0.0.7/", events="no.such", description="x")
        assert wrong.status == 400
        assert "there is no event <bdi>no.such</bdi>." in wrong.body
        made = await do(browser, NEW, url=URL, events="user.enabled\nuser.disabled")
        (secret,) = re.findall(r"whsec_[A-Za-z0-9+/]{43}=", made.body)
        one = await _only(it)
        assert secret not in (await page(browser, one)).body
        edit = await page(browser, f"{one}/edit")
        changed = await browser.submit(edit, "do", description="Mirror")
        assert changed.location == f"{one}?done=edit"
        stale = await browser.submit(edit, "do", description="Other")
        assert stale.status == 400
        assert "It was changed while you edited it" in stale.body
        rotated = await do(browser, f"{one}/secret")
        assert secret not in rotated.body
        assert len(re.findall(r"whsec_", rotated.body)) == 1
        assert (await do(browser, f"{one}/test")).location == f"{one}?done=test"
        for act in ("disable", "enable"):
            assert (await do(browser, f"{one}/{act}")).location == f"{one}?done={act}"
        event = next(
            record for record in await it.event_records() if record.name == "webhook.created"
        )
        attempt = WebhookAttempt(
            "wa_1", one[16:], event.id, event.name, it.clock.now, 1, "500", 9, "s3cret"
        )
        await it.write(lambda tx: Webhooks.of(tx).log(attempt))
        expired = WebhookAttempt(
            "wa_2", one[16:], "ev_gone", event.name, it.clock.now, 1, "event_expired", 0, ""
        )
        await it.write(lambda tx: Webhooks.of(tx).log(expired))
        shown = (await page(browser, one)).body
        assert "Mirror" in shown
        assert "ev_gone" in shown
        assert "event=ev_gone" not in shown
        again = f"{one}/replay?event={event.id}"
        assert again in shown
        assert (await do(browser, again)).location == f"{one}?done=replay"
        assert (await do(browser, f"{one}/replay?event=ev_none")).status == 404
        await do(browser, f"{one}/disable")
        refused = await do(browser, f"{one}/test")
        assert (refused.status, "enable it first" in refused.body) == (400, True)
        assert (await do(browser, f"{one}/delete")).location == "/admin/webhooks?deleted=1"
        assert (await browser.get(one)).status == 404

    run(tmp_path, story)


def test_auditors_see_webhooks_without_paths_and_buttons(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await do(await administrator(it), NEW, url=URL, description="")
        one = await _only(it)
        auditor = await administrator(it, Role.AUDITOR)
        for path in ("/admin/webhooks", one):
            shown = (await page(auditor, path)).body
            assert "https://receiver.example/…" in shown
            assert "s3cret" not in shown
            assert f"{one}/" not in shown
        for act in ("edit", "secret", "test"):
            assert (await auditor.get(f"{one}/{act}")).status == 404

    run(tmp_path, story)


def test_page_says_why_the_receiver_disabled_the_webhook(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, NEW, url=URL)
        one = await _only(it)
        await it.write(lambda tx: Webhooks.of(tx).disable(one[16:], GONE, it.clock.now))
        shown = (await page(browser, one)).body
        assert "Disabled: receiver failed" in shown
        assert "The receiver responded with status 410" in shown

    run(tmp_path, story)


def test_form_is_not_offered_at_the_maximum(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for _ in range(MOST_WEBHOOKS):
            await do(browser, NEW, url=URL)
        shown = (await page(browser, "/admin/webhooks")).body
        assert "There are 20 webhooks, the maximum." in shown
        assert NEW not in shown
        answer = await do(browser, NEW, url=URL)
        assert answer.status == 400
        assert "There are 20 webhooks already." in answer.body
        browser.language = "de"
        answer = await do(browser, NEW, url=URL)
        assert "Es gibt bereits 20 Webhooks." in answer.body

    run(tmp_path, story)
