"""Recovery codes: ten, shown once, each good once."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.account.security.factors import (
    CODE,
    after_password,
    with_app,
)
from tests.support.harness import Harness
from tests.support.visitors import ALICE, run
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.moment import minutes
from valetkey.kernel.replace import replace


async def left(it: Harness) -> int:
    return (await it.store.read(lambda tx: tx.credentials.recovery_codes_of(ALICE.uid))).left


def test_recovery_code_in_any_spelling_is_accepted_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        _, _, codes = await with_app(it)
        for typed in (codes[0], codes[1].lower(), codes[2].replace("-", " "), f" {codes[3]} "):
            browser = it.browser()
            page = await after_password(it, browser)
            assert (await browser.submit(page, "with-recovery", recovery=typed)).status == 303
        assert await left(it) == 6
        browser = it.browser()
        page = await after_password(it, browser)
        again = await browser.submit(page, "with-recovery", recovery=codes[0])
        assert again.status == 401
        assert knows(again, "Incorrect or already used recovery code")
        assert (await it.events()).count("recovery_code.used") == 4

    run(tmp_path, story, database_url)


def test_parallel_uses_of_one_recovery_code_succeed_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        _, _, codes = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        action, fields = page.form("with-recovery")
        cookies = dict(browser.cookies)

        async def try_it() -> int:
            tab = it.browser(cookies)
            return (await tab.post(action, {**fields, "recovery": codes[0]})).status

        statuses = await asyncio.gather(*(try_it() for _ in range(32)))
        assert statuses.count(303) == 1
        assert await left(it) == 9

    run(tmp_path, story, database_url)


def test_recovery_code_of_another_user_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, _, codes = await with_app(it, "bob")
        await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        assert (await browser.submit(page, "with-recovery", recovery=codes[0])).status == 401

    run(tmp_path, story)


def test_new_recovery_codes_replace_the_old_and_can_be_downloaded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, old = await with_app(it)
        page = await alice.get("/account/security/recovery-codes")
        assert knows(page, "You have 10 codes left")
        assert not CODE.findall(page.body)
        made = await alice.submit(page, "make")
        new = CODE.findall(made.body)
        assert len(set(new)) == 10
        assert not set(new) & set(old)
        file = await alice.submit(made, "download")
        assert file.header("content-type") == "text/plain; charset=utf-8"
        assert file.header("content-disposition").startswith("attachment")
        assert CODE.findall(file.body) == new
        browser = it.browser()
        page = await after_password(it, browser)
        assert (await browser.submit(page, "with-recovery", recovery=old[0])).status == 401
        assert (await browser.submit(page, "with-recovery", recovery=new[0])).status == 303
        # The page is good for the file for a quarter of an hour.
        it.clock.forward(minutes(15))
        assert (await alice.submit(made, "download")).status == 303

    run(tmp_path, story)


def test_recovery_codes_require_a_second_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        await alice.submit(await alice.get("/account/security/authenticator/remove"), "remove")
        page = await alice.get("/account/security/recovery-codes")
        assert page.location == "/account/security"

    run(tmp_path, story)


def test_use_of_a_recovery_code_is_reported_by_email_with_the_number_left(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, _, codes = await with_app(it)
        keyring = it.server.keyring
        proven = replace(ALICE, email_verified_at=it.clock.now)
        assert await it.store.write(lambda tx: tx.users.change(proven))
        browser = it.browser()
        page = await after_password(it, browser)
        assert (await browser.submit(page, "with-recovery", recovery=codes[0])).status == 303
        rows = await it.store.read(
            lambda tx: tx.db.rows("SELECT id, sealed FROM outbox WHERE kind = 'recovery_code_used'")
        )
        assert len(rows) == 1
        plain = keyring.sealer.open(rows[0][1], f"mails.sealed:{rows[0][0]}")
        assert plain is not None
        assert b'"left":"9"' in plain

    run(tmp_path, story, mail=MailSettings(host="mail.example"))
