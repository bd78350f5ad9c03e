"""How many sign-ups and password resets one network may begin: what is finished does not count."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import (
    OPEN,
    OTHER,
    asked_to_sign_up,
    browser,
    letters,
    link_of,
    proven,
    run,
)
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.actions.account.sign_up import LIFETIME, SENT_AGAIN, WINDOW
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.config.settings import LimitSettings, PasswordSettings

FEW = 3
ALTOGETHER = 10 * FEW
LIMITS = LimitSettings(unopened_links_per_address=FEW)
PEOPLE = 200
AT_ONCE = 25
HINT = "If you already have our email, open its link."


async def _sign_up(it: Harness, name: str, address: str = "192.0.2.7") -> tuple[Browser, Answer]:
    here = browser(it)
    here.address = address
    return here, await asked_to_sign_up(it, here, username=name, email=f"{name}@example.com")


async def _links(it: Harness, kind: EmailKind = EmailKind.SIGN_UP) -> dict[str, str]:
    """The newest link to each address."""
    sent = [letter for letter in await letters(it) if letter.kind is kind]
    return {letter.to: link_of(letter) for letter in reversed(sent)}


async def _finish(here: Browser, link: str) -> int:
    return (await here.submit(await here.get(link), "finish")).status


async def _statuses(it: Harness, *names: str) -> list[int]:
    return [(await _sign_up(it, name))[1].status for name in names]


def _batches(prefix: str) -> Sequence[Sequence[str]]:
    names = [f"{prefix}{number:03}x" for number in range(PEOPLE)]
    return [names[first : first + AT_ONCE] for first in range(0, PEOPLE, AT_ONCE)]


def test_200_users_behind_one_ip_address_can_sign_up_within_the_hour(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for names in _batches("pupil"):
            it.clock.forward(1)
            begun = await asyncio.gather(*(_sign_up(it, name) for name in names))
            assert {answer.status for _, answer in begun} == {200}
            links = await _links(it)
            for name, (here, _) in zip(names, begun, strict=True):
                assert await _finish(here, links[f"{name}@example.com"]) == 303

    run(tmp_path, story)


def test_200_users_behind_one_ip_address_can_reset_passwords_in_the_hour(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        accounts = it.foundation.accounts()
        for names in _batches("staff"):
            it.clock.forward(1)

            def register(tx: Transaction, names: Sequence[str] = names) -> None:
                for name in names:
                    record = UserRecord(name, f"{name}@example.com", email_verified=True)
                    accounts.register(tx, record, it.clock.now)

            await it.write(register)
            assert {(await _forgot(it, name)).status for name in names} == {200}
            links = await _links(it, EmailKind.PASSWORD_RESET)
            for name in names:
                assert (await _choose(it, links[f"{name}@example.com"])).status == 200

    run(tmp_path, story)


async def _forgot(it: Harness, name: str) -> Answer:
    here = browser(it)
    return await here.submit(await here.get("/account/forgotten"), "send", name=name)


async def _choose(it: Harness, link: str) -> Answer:
    here = browser(it)
    return await here.submit(await here.get(link), "change", new=OTHER)


def test_unfinished_sign_ups_are_limited_for_their_network(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        names = [f"victim{number:02}x" for number in range(24)]
        answers = await asyncio.gather(*(_sign_up(it, name) for name in names))
        statuses = sorted(answer.status for _, answer in answers)
        assert statuses == [200] * FEW + [429] * (len(names) - FEW)
        refused = next(answer for _, answer in answers if answer.status == 429)
        wait = int(refused.header("retry-after"))
        assert 0 < wait <= WINDOW
        assert "Try again in" in refused.body
        assert HINT in refused.body
        assert len(await letters(it)) == FEW
        assert (await _sign_up(it, "neighbour", "198.51.100.1"))[1].status == 200
        it.clock.forward(wait)
        assert await _statuses(it, "after", "toosoon") == [200, 429]

    run(tmp_path, story, database_url, limits=LIMITS)


def test_ipv6_addresses_of_one_56_prefix_share_one_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for number in range(FEW):
            address = f"2001:db8:0:1{number:x}::{number + 1}"
            assert (await _sign_up(it, f"guest{number}x", address))[1].status == 200
        assert (await _sign_up(it, "onemore", "2001:db8:0:ff::9"))[1].status == 429
        assert (await _sign_up(it, "elsewhere", "2001:db8:0:100::9"))[1].status == 200

    run(tmp_path, story, limits=LIMITS)


def test_confirmed_sign_ups_of_one_network_are_limited(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for number in range(ALTOGETHER):
            here, answer = await _sign_up(it, f"catchall{number:02}x")
            assert answer.status == 200
            links = await _links(it)
            assert await _finish(here, links[f"catchall{number:02}x@example.com"]) == 303
        _, refused = await _sign_up(it, "onemore")
        assert refused.status == 429
        it.clock.forward(int(refused.header("retry-after")))
        assert (await _sign_up(it, "onemore"))[1].status == 200

    run(tmp_path, story, limits=LIMITS)


def test_parallel_link_uses_free_one_place_in_the_limit(database_url: str, tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        begun = [await _sign_up(it, f"person{number}x") for number in range(FEW)]
        assert await _statuses(it, "toomany") == [429]
        here, link = begun[0][0], (await _links(it))["person0x@example.com"]
        page = await here.get(link)
        answers = await asyncio.gather(*(here.submit(page, "finish") for _ in range(64)))
        assert [answer.status for answer in answers].count(303) == 1
        assert await _statuses(it, "instead", "toomany") == [200, 429]

    run(tmp_path, story, database_url, limits=LIMITS)


def test_link_confirmed_after_the_window_frees_no_place_in_the_limit(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        early = [await _sign_up(it, f"early{number}x") for number in range(FEW)]
        links = await _links(it)
        it.clock.forward(WINDOW + 10)
        assert await _statuses(it, "late0x", "late1x", "late2x", "late3x") == [200] * 3 + [429]
        for number, (here, _) in enumerate(early):
            assert await _finish(here, links[f"early{number}x@example.com"]) == 303
        assert await _statuses(it, "late4x") == [429]
        assert WINDOW < LIFETIME

    run(tmp_path, story, limits=LIMITS)


def test_an_email_that_is_sent_again_counts_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here, page = await _sign_up(it, "grace")
        for _ in range(FEW - 1):
            page = await here.submit(page, "resend")
            assert page.status == 200
        assert (await here.submit(page, "resend")).status == 429
        assert await _statuses(it, "another") == [429]

    run(tmp_path, story, limits=LIMITS)


def test_email_refused_by_the_resend_limit_does_not_count(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here, page = await _sign_up(it, "grace")
        for _ in range(SENT_AGAIN.attempts):
            page = await here.submit(page, "resend")
            assert page.status == 200
        assert (await here.submit(page, "resend")).status == 429
        assert await _statuses(it, "another", "onemore") == [200, 429]

    most = 2 + SENT_AGAIN.attempts
    run(tmp_path, story, limits=LimitSettings(unopened_links_per_address=most))


def test_taken_username_counts_only_toward_the_total_limit(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = browser(it)
        for _ in range(ALTOGETHER - 1):
            answer = await asked_to_sign_up(it, here, username="ada")
            assert answer.status == 400
        assert await _statuses(it, "free", "onemore") == [200, 429]

    run(tmp_path, story, limits=LIMITS)


def test_accounts_and_taken_emails_count_if_mail_is_off(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert await _statuses(it, "first") == [303]
        for expected in (400, 400, 429):
            here = browser(it)
            answer = await asked_to_sign_up(it, here, username="x1y", email="ada@example.com")
            assert answer.status == expected

    run(tmp_path, story, mail=MailSettings(), limits=LIMITS)


def test_invited_users_do_not_count(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        invitations = it.foundation.people_invitations
        for number in range(ALTOGETHER + 1):
            link, email = invitations.links.fresh(), f"guest{number}@example.com"
            url = await it.write(
                lambda tx, link=link, email=email: invitations.invite(  # type: ignore[misc]
                    tx, email, link, "en", it.clock.now
                )
            )
            here = browser(it)
            page = await here.get(url.removeprefix(it.foundation.issuer))
            answer = await here.submit(
                page, "create", username=f"guest{number}x", name="", new=OTHER
            )
            assert answer.status == 303
        assert await _statuses(it, "a1x", "a2x", "a3x", "a4x") == [200, 200, 200, 429]

    run(tmp_path, story, accounts=OPEN, limits=LIMITS)


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_unfinished_resets_are_limited_for_their_network(
    database_url: str, tmp_path: Path, name: str
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        answers = await asyncio.gather(*(_forgot(it, name) for _ in range(24)))
        statuses = sorted(answer.status for answer in answers)
        assert statuses == [200] * FEW + [429] * (24 - FEW)
        refused = next(answer for answer in answers if answer.status == 429)
        assert int(refused.header("retry-after")) > 0
        assert HINT in refused.body

    run(tmp_path, story, database_url, limits=LIMITS)


def test_parallel_uses_of_a_reset_link_free_one_place_in_the_limit(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        for _ in range(FEW):
            it.clock.forward(1)
            assert (await _forgot(it, "ada")).status == 200
        assert (await _forgot(it, "ada")).status == 429
        here, link = browser(it), (await _links(it, EmailKind.PASSWORD_RESET))["ada@example.com"]
        page = await here.get(link)
        words = [f"{number} violet kettles" for number in range(64)]
        answers = await asyncio.gather(*(here.submit(page, "change", new=word) for word in words))
        assert [answer.status for answer in answers].count(200) == 1
        assert (await _forgot(it, "ada")).status == 200
        assert (await _forgot(it, "ada")).status == 429

    passwords = PasswordSettings(queue=100)
    run(tmp_path, story, database_url, limits=LIMITS, passwords=passwords)


def test_reset_emails_to_one_account_are_limited_despite_completed_resets(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        for _ in range(12):
            it.clock.forward(1)
            assert (await _forgot(it, "ada")).status == 200
            link = (await _links(it, EmailKind.PASSWORD_RESET)).get("ada@example.com", "")
            await _choose_if_valid(it, link)
        sent = [letter for letter in await letters(it) if letter.kind is EmailKind.PASSWORD_RESET]
        assert len(sent) == 5

    run(tmp_path, story, limits=LimitSettings(unopened_links_per_address=12))


async def _choose_if_valid(it: Harness, link: str) -> None:
    here = browser(it)
    page = await here.get(link)
    if page.status == 200:
        await here.submit(page, "change", new=OTHER)
