"""What happened: to me alone, in words, newest first, page by page."""

from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.pages.reading import Reading
from tests.support.harness import NOON, Harness
from tests.support.visitors import ALICE, run
from valetkey.authorization.features import EVENTS, KINDS
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.render import render
from valetkey.authorization.model.event.accounts import SignInFailed, UserChanged
from valetkey.authorization.model.event.event import ActivityKind, by_user
from valetkey.authorization.model.event.grants import (
    CodeRedeemed,
    ConsentGiven,
    GrantRevoked,
    RefreshTokenUsed,
)
from valetkey.authorization.site.account.activity import (
    SHOWN,
    ActivityLine,
    ActivityPage,
    ListedEvents,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes

_LISTED = ListedEvents.from_kinds(KINDS)


def test_events_are_shown_in_words_and_only_to_their_user(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            tx.events.add(ConsentGiven(ALICE.uid, "web1", "read"), it.clock.now)
            tx.events.add(
                CodeRedeemed(ALICE.uid, "nat1", "gr_1", "at_1", "read", "https://a.x"), it.clock.now
            )
            tx.events.add(GrantRevoked(ALICE.uid, "gone", "gr_1", "x"), it.clock.now)
            tx.events.add(
                RefreshTokenUsed(ALICE.uid, "web1", "gr", "at", True, "read", "https://a.x"),
                it.clock.now,
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

    run(tmp_path, story, database_url)


def test_pages_of_activity_continue_without_gap_or_repetition(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            for number in range(SHOWN * 2):
                # Many in one second: the place is more than a time.
                tx.events.add(SignInFailed(ALICE.uid, f"door {number}"), it.clock.now)

        await it.store.write(happen)
        it.clock.forward(5)
        browser = await signed_in(it)
        page = await browser.get("/account/activity")
        counts = [page.body.count("<time")]
        while address := page.beside("next"):
            page = await browser.get(address)
            counts.append(page.body.count("<time"))
        assert counts == [SHOWN, SHOWN, 1]
        assert knows(page, ">Newest</a>")
        page = await browser.get(page.beside("prev"))
        assert page.body.count("<time") == SHOWN
        assert page.beside("prev") == "/account/activity"

    run(tmp_path, story, database_url)


def test_activity_page_changes_nothing_and_refuses_invalid_cursors(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        await it.store.write(
            lambda tx: tx.events.add(UserChanged(ALICE.uid, ("name",)), it.clock.now)
        )
        before = await it.events()
        for wrong in ("", "1", "1.", ".ev_1", "0.ev", "9" * 13 + ".ev", "1.ev\u00e9", "1.'", "²²"):
            answer = await browser.get("/account/activity", before=wrong)
            assert answer.status == 400, wrong
        assert knows(await browser.get("/account/activity", before="1.ev"), "No more entries")
        assert (await browser.send("HEAD", "/account/activity")).status == 200
        assert (await browser.post("/account/activity", {})).status == 405
        assert (await it.browser().get("/account/activity")).location == (
            "/oauth/sign-in?to=/account/activity"
        )
        assert await it.events() == before

    run(tmp_path, story)


def test_home_links_to_every_account_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        home = await browser.get("/")
        for name in ("apps", "sessions", "security", "activity"):
            assert f'href="/account/{name}"' in home.body
            page = await browser.get(f"/account/{name}")
            assert page.status == 200
            assert f'href="/account/{name}" aria-current="page"' in page.body
        assert "/account/" not in (await it.browser().get("/")).body

    run(tmp_path, story)


def test_every_event_of_a_user_is_shown_or_listed_as_hidden() -> None:
    unsorted = {
        event.name
        for event in EVENTS
        if ("uid" in event.__struct_fields__) != ((event.activity is None) == bool(event.unlisted))
    }
    assert not unsorted, "each event of a user has an activity or a reason why it is unlisted"
    lines = [
        ActivityLine(_LISTED.text(name), When(NOON, NOON), "Printer") for name in _LISTED.texts
    ]
    pages = [render(ActivityPage((line,)), brand=Brand()) for line in lines]
    texts = [Reading(page).the("ol").text for page in pages]
    assert len(set(texts)) == len(lines), "each has words of its own"


def test_activity_filter_covers_every_event(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        def happen(tx: Transaction) -> None:
            for name in (event.name for event in EVENTS if "uid" in event.__struct_fields__):
                tx.db.run(
                    "INSERT INTO events (id, at, name, client_id, uid, grant_id, data)"
                    " VALUES (:id, :at, :name, NULL, :uid, NULL, '{}')",
                    id=f"ev_{name}",
                    at=it.clock.now - 60,
                    name=name,
                    uid=ALICE.uid,
                )

        await it.store.write(happen)

        def event_names(tx: Transaction, kind: ActivityKind | None) -> set[str]:
            records = tx.events.of_person(ALICE.uid, it.clock.now, "", 1_000, _LISTED.names(kind))
            return {event.name for event in records}

        assert await it.store.read(lambda tx: event_names(tx, None)) == set(_LISTED.texts)
        browser = await signed_in(it)
        for kind in ActivityKind:
            names = set(_LISTED.names(kind))
            assert await it.store.read(lambda tx, kind=kind: event_names(tx, kind)) == names  # type: ignore[misc]
            page = await browser.get("/account/activity", kind=kind.value)
            assert page.body.count("<time") == len(names) + (kind is ActivityKind.SIGN_IN)
            assert f'href="/account/activity?kind={kind}" aria-current="page"' in page.body
        for other in ("", "nothing", "<b>", "apps'"):
            assert (await browser.get("/account/activity", kind=other)).status == 200

    run(tmp_path, story, database_url)


def test_activity_shows_browser_of_sign_ins_and_marks_changes_by_operators(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        changed = UserChanged(ALICE.uid, ("name",))
        await it.store.write(lambda tx: tx.events.add(changed, it.clock.now), done_by=by_user(1002))
        await it.store.write(lambda tx: tx.events.add(changed, it.clock.now), done_by=by_user(1001))
        page = await browser.get("/account/activity")
        assert knows(
            page, "You signed in. <small>Firefox on Linux from <bdi>192.0.2.7</bdi></small>"
        )
        assert page.body.count("By an operator of this server") == 1
        assert "1002" not in page.body

    run(tmp_path, story)
