"""What happened: to me alone, in words, newest first, page by page."""

import re

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.visitor.world import ALICE, World, run
from valetkey.authorization.endpoints.account.activity import SHOWN
from valetkey.authorization.model.event.grants import (
    CodeRedeemed,
    ConsentGiven,
    GrantRevoked,
    RefreshTokenUsed,
)
from valetkey.authorization.model.event.people import UserChanged
from valetkey.authorization.model.event.sessions import SignInFailed
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes


def test_events_are_told_in_words_and_only_to_whom_they_concern(database_url: str) -> None:
    async def story(it: World) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(ConsentGiven(ALICE.uid, "web1", "read"), it.clock.now)
            tx.events.add(CodeRedeemed(ALICE.uid, "nat1", "gr_1", "at_1", "read"), it.clock.now)
            tx.events.add(GrantRevoked(ALICE.uid, "gone", "gr_1", "x"), it.clock.now)
            tx.events.add(
                RefreshTokenUsed(ALICE.uid, "web1", "gr", "at", True, "read"), it.clock.now
            )

        await it.store.write(happen)
        it.clock.forward(minutes(2))
        page = await (await signed_in(it)).get("/account/activity")
        assert page.status == 200
        assert "no-store" in page.header("cache-control")
        assert knows(page, "You allowed <bdi>Notes Printer</bdi> to use your account.")
        assert knows(page, "<bdi>Pocket Printer</bdi> got access.")
        assert knows(page, "The access of <bdi>gone</bdi> ended.")
        assert page.body.index("You signed in.") < page.body.index("You allowed")
        assert page.body.count("<time") == 4
        other = await (await signed_in(it, "bob")).get("/account/activity")
        assert "Printer" not in other.body
        assert other.body.count("<time") == 1

    run(database_url, story)


def test_pages_follow_each_other_without_gap_or_repetition(database_url: str) -> None:
    async def story(it: World) -> None:
        def happen(tx: Transaction) -> None:
            for each in range(SHOWN * 2):
                # Many in one second: the place is more than a time.
                tx.events.add(SignInFailed(ALICE.uid, f"door {each}"), it.clock.now)

        await it.store.write(happen)
        it.clock.forward(5)
        browser = await signed_in(it)
        page = await browser.get("/account/activity")
        counts = [page.body.count("<time")]
        while found := re.search(r'href="(/account/activity\?before=[^"]+)"', page.body):
            page = await browser.get(found[1])
            counts.append(page.body.count("<time"))
        assert counts == [SHOWN, SHOWN, 1]
        assert knows(page, ">Newest</a>")

    run(database_url, story)


def test_looking_changes_nothing_and_wrong_places_are_refused(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = await signed_in(it)
        await it.store.write(
            lambda tx: tx.events.add(UserChanged(ALICE.uid, ("name",)), it.clock.now)
        )
        before = await it.events()
        for wrong in ("", "1", "1.", ".ev_1", "0.ev", "9" * 13 + ".ev", "1.ev\u00e9", "1.'", "²²"):
            answer = await browser.get("/account/activity", before=wrong)
            assert answer.status == 400, wrong
        assert knows(await browser.get("/account/activity", before="1.ev"), "nothing more")
        assert (await browser.send("HEAD", "/account/activity")).status == 200
        assert (await browser.post("/account/activity", {})).status == 405
        assert (await it.browser().get("/account/activity")).location == (
            "/oauth/sign-in?to=/account/activity"
        )
        assert await it.events() == before

    run(sqlite_url, story)


def test_home_leads_to_every_page_of_the_account(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = await signed_in(it)
        home = await browser.get("/")
        for name in ("apps", "sessions", "security", "activity"):
            assert f'href="/account/{name}"' in home.body
            page = await browser.get(f"/account/{name}")
            assert page.status == 200
            assert f'href="/account/{name}" aria-current="page"' in page.body
        assert "/account/" not in (await it.browser().get("/")).body

    run(sqlite_url, story)
