"""Operations that cannot be undone ask for the name of what they delete."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.operations.operation import Button, Operation
from valetkey.authorization.site.admin.confirm import Confirmed
from valetkey.authorization.webhooks.storage import Webhooks
from valetkey.web.body import Form

BUTTONS = [(operation, button) for operation in OPERATIONS for button in operation.buttons]


def test_only_irreversible_buttons_say_so_and_all_look_destructive() -> None:
    slugs = {
        button.slug
        for _, button in BUTTONS
        if "cannot be undone" in " ".join((button.text, *button.consequences))
    }
    flagged = {button.slug for _, button in BUTTONS if button.irreversible}
    assert slugs == flagged
    assert len(flagged) > 1
    assert all(button.danger for _, button in BUTTONS if button.irreversible)


@pytest.mark.parametrize(
    ("operation", "button"), BUTTONS, ids=[operation.id for operation, _ in BUTTONS]
)
def test_only_irreversible_operations_need_the_name_to_be_typed(
    operation: Operation, button: Button
) -> None:
    confirmed, fields = Confirmed(operation, button), {"confirms": "Notes"}
    for typed in ({}, {"confirmation": ""}, {"confirmation": "notes"}):
        assert confirmed.is_unconfirmed(Form({**fields, **typed})) is button.irreversible
    assert confirmed.is_unconfirmed(Form({})) is button.irreversible
    assert not confirmed.is_unconfirmed(Form({**fields, "confirmation": " Notes "}))


def test_key_token_and_webhook_end_only_when_their_name_is_typed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        keys = it.foundation.keys
        await keys.refresh(it.clock.now, surely=True)
        kid = keys.current(it.clock.now).kid
        made = await do(
            browser, "/admin/tokens/new", name="Report", lifetime="1", permissions="read"
        )
        assert made.status == 200
        await do(
            browser, "/admin/webhooks/new", url="https://hook.example/in", events="user.disabled"
        )
        (webhook,) = await it.read(lambda tx: Webhooks.of(tx).all())
        (token,) = await it.read(lambda tx: tx.api_tokens.live_of(ADA, it.clock.now))
        for path, name in (
            (f"/admin/keys/{kid}/withdraw", kid[:8]),
            (f"/admin/tokens/{token.id}/end", "Report"),
            (f"/admin/webhooks/{webhook.id}/delete", "hook.example"),
        ):
            before = await it.read(lambda tx: tx.events.newest(50))
            wrong = await do(browser, path, confirmation="x")
            assert (wrong.status, "The name does not match." in wrong.body) == (400, True), path
            assert await it.read(lambda tx: tx.events.newest(50)) == before
            assert (await browser.submit(wrong, "do", confirmation=f" {name} ")).status == 303
            assert await it.read(lambda tx: tx.events.newest(50)) != before

    run(tmp_path, story)


def test_wrong_name_deletes_nothing_and_asks_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await do(browser, "/admin/groups/new", name="staff")
        wrong = await do(browser, "/admin/groups/staff/delete", confirmation="stuff")
        assert wrong.status == 400
        assert "The name does not match." in wrong.body
        assert (await browser.submit(wrong, "do", confirmation="staff")).status == 303
        assert (await browser.get("/admin/groups/staff")).status == 404

    run(tmp_path, story)


def test_dangerous_operations_are_in_one_section_at_the_end_of_the_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        body = (await page(browser, "/admin/clients/web")).body
        before, zone = body.split('class="danger-zone"')
        assert '"/admin/clients/web/secret"' in before
        for slug in ("disable", "delete"):
            assert f'id="{slug}"' in zone
            assert f'id="{slug}"' not in before
            assert f'aria-describedby="{slug}-text"' in zone
        assert "<h2" not in zone.split("</h2>", 1)[1]

    run(tmp_path, story)
