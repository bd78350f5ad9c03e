"""What people say of themselves: kept as typed, and never lost to another window."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.pages.reading import Reading
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.actions.account.profile import FIELDS
from valetkey.authorization.actions.attributes import change_attributes
from valetkey.authorization.claims.rules import declare_attribute
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.model.user import Attribute, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes

PATH = "/account/profile"


ONE_LINE = frozenset(FIELDS) - {"street_address"}


def shown(page: Answer) -> dict[str, str]:
    """What stands in the fields."""
    _, fields = page.form("save")
    return {name: values[0] for name, values in fields.items() if name in ONE_LINE}


async def save(page: Answer, browser: Browser, **edits: str) -> Answer:
    _, fields = page.form("save")
    typed = {name: value[0] for name, value in fields.items()}
    lines = {"street_address": edits.pop("street_address", "")}
    return await browser.post(PATH, {**typed, **lines, **edits})


async def alice(it: Harness) -> User:
    user = await it.store.read(lambda tx: tx.users.find(ALICE.uid))
    assert user is not None
    return user


async def changes(it: Harness) -> list[list[str]]:
    """The fields that each change named."""
    page = await it.store.read(lambda tx: tx.events.page(it.clock.now, "", 1_000))
    return [json.loads(e.data)["fields"] for e in page if e.name == "user.changed"]


def test_profile_is_saved_and_shown(tmp_path: Path, database_url: str) -> None:
    profile = {
        "name": "Alice P. Liddell",
        "username": "alice.l",
        "given_name": "Alice",
        "family_name": "Liddell",
        "birthdate": "1852-05-04",
        "website": "alice.example/wonder",
        "zoneinfo": "Europe/London",
        "locale": "en-GB",
        "phone_number": "+44 (20) 7946-0000",
        "street_address": "The Deanery\r\nChrist Church",
        "locality": "Oxford",
    }

    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await browser.get(PATH)
        assert shown(page)["username"] == "alice"
        assert knows(page, "Not verified")
        it.clock.forward(minutes(10))
        answer = await save(page, browser, **profile)
        assert answer.location == f"{PATH}?saved=1", answer.body
        after = await browser.follow(answer)
        assert knows(after, "Your profile is saved.")
        kept = {
            **profile,
            "website": "https://alice.example/wonder",
            "phone_number": "+442079460000",
        }
        del kept["street_address"]
        assert shown(after) == dict.fromkeys(shown(after), "") | kept
        user = await alice(it)
        assert user.claims.address.street_address == "The Deanery\nChrist Church"
        assert (user.email, user.email_verified_at, user.role) == (ALICE.email, None, None)
        (fields,) = await changes(it)
        assert set(fields) == {*profile, "address"} - {"street_address", "locality"}
        assert (await browser.get(PATH)).body.count("Your profile is saved") == 0

    run(tmp_path, story, database_url)


def test_declared_attributes_are_shown_and_editable_where_declared_so(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def declare(tx: Transaction) -> None:
            number: dict[str, object] = {"type": "integer", "minimum": 1}
            assert declare_attribute(tx, Attribute("room", "Room", number, editable=True), now)
            assert declare_attribute(tx, Attribute("team", "Team", {"type": "string"}), now)
            user = tx.users.find_to_change(ALICE.uid)
            assert user is not None
            assert isinstance(change_attributes(tx, user, {"team": "Ops"}, now), User)

        await it.store.acting(by_cli("test")).write(declare)
        browser = await signed_in(it)
        page = await browser.get(PATH)
        assert knows(page, "Set by the administrator")
        assert knows(page, "Ops")
        for number in ("0", str(2**53), "9" * 40):
            wrong = await save(page, browser, **{"attribute.room": number})
            assert wrong.status == 400
            assert f'value="{number}"' in wrong.body
        sent = {"attribute.room": "7", "attribute.team": "Board"}
        assert (await save(page, browser, **sent)).status == 303
        assert (await alice(it)).attributes.values == {"room": 7, "team": "Ops"}
        assert 'value="7"' in (await browser.get(PATH)).body
        # A form from before that change does not undo it.
        assert (await save(page, browser, **{"attribute.room": "8"})).status == 409
        assert (await alice(it)).attributes.values["room"] == 7

    run(tmp_path, story, database_url)


@pytest.mark.parametrize(
    ("field", "wrong", "words"),
    [
        ("username", "", "3 to 40 letters from a to z"),
        ("username", "a b", "3 to 40 letters from a to z"),
        ("username", "a@b.example", "3 to 40 letters from a to z"),
        ("username", "\u0430lice", "3 to 40 letters from a to z"),
        ("username", "Administrator", "This username is already taken."),
        ("username", "BOB", "This username is already taken."),
        ("username", "bob", "This username is already taken."),
        ("name", "x" * 10_240, "This is too long"),
        ("nickname", "a\u202eb", "This is too long"),
        ("website", "javascript://x", "Enter a web address that begins with https://"),
        ("picture", "http://a.example/me.png", "Enter a web address that begins with https://"),
        ("birthdate", "1990-02-30", "Enter the date as 1990-12-31. The year alone is fine"),
        ("zoneinfo", "Europe/Nowhere", "Unknown time zone"),
        ("locale", "english!", "This is not a language tag"),
        ("phone_number", "020 7946", "Start with a plus sign and the country code"),
        ("street_address", "a\0b", "This is too long"),
    ],
)
def test_invalid_profile_value_is_reported_at_its_field_and_input_is_kept(
    tmp_path: Path, field: str, wrong: str, words: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        typed = {"nickname": "Al", field: wrong}
        page = await save(await browser.get(PATH), browser, **typed)
        assert page.status == 400
        reading = Reading(page.body.encode())
        entry = reading.by_id(field.replace("_", "-"))
        assert entry.attributes["aria-invalid"] == "true"
        assert knows(page, words)
        if field != "street_address" and wrong.isprintable():
            assert shown(page) == {**shown(await browser.get(PATH)), **typed}
        assert await alice(it) == ALICE
        again = await save(page, browser, **{field: "alice" if field == "username" else ""})
        assert again.status == 303, "a form that failed can be sent again"

    run(tmp_path, story)


def test_conflicting_save_is_refused_and_shows_the_other_change(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        first, second = await browser.get(PATH), await browser.get(PATH)
        assert (await save(first, browser, name="Alice One")).status == 303
        page = await save(second, browser, nickname="Al")
        assert page.status == 409
        assert knows(page, "Your profile was changed in another window or by an app")
        assert knows(page, "Saved by another window: <bdi>Alice One</bdi>")
        assert shown(page)["nickname"] == "Al"
        assert (await alice(it)).name == "Alice One"
        assert (await save(page, browser, name="Alice Two")).status == 303
        user = await alice(it)
        assert (user.name, user.claims.nickname) == ("Alice Two", "Al")

    run(tmp_path, story, database_url)


def test_saving_the_profile_twice_succeeds(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await browser.get(PATH)
        for _ in range(2):
            assert (await save(page, browser, nickname="Al")).status == 303
        assert len(await changes(it)) == 1

    run(tmp_path, story)


def test_profile_form_changes_no_other_fields_of_the_user(tmp_path: Path) -> None:
    more: Mapping[str, str] = {
        "email": "mallory@example.com",
        "email_verified": "1",
        "role": "owner",
        "uid": "1002",
        "phone_number_verified": "1",
        "created_at": "0",
        "disabled_at": "1",
    }

    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await browser.get(PATH)
        assert (await save(page, browser, phone_number="+442079460000", **more)).status == 303
        user = await alice(it)
        assert (user.email, user.email_verified_at) == (ALICE.email, None)
        assert (user.role, user.disabled_at, user.created_at) == (None, None, ALICE.created_at)
        assert user.claims.phone_number_verified is False

    run(tmp_path, story)


def test_form_without_own_session_changes_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser, bobs = await signed_in(it), await signed_in(it, "bob")
        page = await browser.get(PATH)
        assert (await save(page, bobs, name="Mallory")).status == 403
        assert (await save(page, it.browser(), name="Mallory")).location == "/oauth/sign-in"
        assert (await it.browser().get(PATH)).status == 303
        assert (await browser.send("HEAD", PATH)).status == 200
        assert await alice(it) == ALICE

    run(tmp_path, story)


def test_times_are_shown_in_the_time_zone_of_the_profile(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        before = await browser.get("/account/activity")
        assert "15 Jan 2027, 08:00:00 UTC" in before.body
        assert "data-zoneless" in before.body
        await save(await browser.get(PATH), browser, zoneinfo="Europe/Berlin")
        after = await browser.get("/account/activity")
        assert "15 Jan 2027, 09:00:00 CET" in after.body
        assert "data-zoneless" not in after.body

    run(tmp_path, story)
