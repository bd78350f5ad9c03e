"""One's own data: all of it, nobody else's, and no secret."""

import json
from pathlib import Path

from tests.authorization.endpoints.account.people import FIREFOX, grant_of, knows, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.providers.model import Identity
from valetkey.authorization.providers.storage import Identities
from valetkey.kernel.moment import minutes
from valetkey.kernel.scope import Scope

PATH = "/account/data"


async def download(browser: Browser) -> Answer:
    return await browser.submit(await browser.get(PATH), "download")


def test_export_contains_all_account_data_and_no_secret(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("notes:read"))
        theirs = await grant_of(it, "nat1", Scope.of("read"), user=BOB)
        link = Identity("https://id.example", "s1", ALICE.uid, "alice at work", it.clock.now)
        await it.store.write(lambda tx: Identities.of(tx).link(link))
        browser = await signed_in(it)
        answer = await download(browser)
        assert answer.status == 200
        assert answer.header("content-type").startswith("application/json")
        assert answer.header("content-disposition") == 'attachment; filename="account.json"'
        assert answer.header("cache-control") == "no-store"
        account = json.loads(answer.body)
        assert account["about"]["issuer"] == "https://auth.example"
        assert "https://api.example" in account["about"]["elsewhere"]
        assert account["profile"]["username"] == "alice"
        assert [credential["kind"] for credential in account["credentials"]] == ["password"]
        (session,) = account["sessions"]
        assert (session["browser"], session["user_agent"]) == ("Firefox Linux", FIREFOX)
        assert [consent["app"] for consent in account["consents"]] == ["Notes Printer"]
        assert [grant["scope"] for grant in account["grants"]] == ["notes:read"]
        assert [identity["shown_as"] for identity in account["accounts_elsewhere"]] == [
            "alice at work"
        ]
        assert "session.started" in {event["name"] for event in account["events"]}
        stored = await it.store.read(lambda tx: tx.users.password_hash(ALICE.uid))
        for secret in (stored, *browser.cookies.values(), theirs, "bob", "argon2", PASSWORD):
            assert secret is not None
            assert secret not in answer.body
        assert (await it.events()).count("data.exported") == 1

    run(tmp_path, story, database_url)


def test_recent_authentication_is_required(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        assert not knows(await browser.get(PATH), "Confirmed. You can now")
        it.clock.forward(minutes(11))
        answer = await download(browser)
        assert answer.location == "/account/confirm?to=/account/data&repeat=yes"
        page = await browser.get(answer.location)
        back = await browser.follow(await browser.submit(page, "confirm", password=PASSWORD))
        assert knows(back, "Confirmed. You can now download your data")
        assert (await download(browser)).status == 200

    run(tmp_path, story)


def test_download_requires_a_post_of_the_own_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser, bobs = await signed_in(it), await signed_in(it, "bob")
        assert "credentials" not in (await browser.get(PATH, format="json")).body
        _, fields = (await browser.get(PATH)).form("download")
        assert (await bobs.post(PATH, fields)).status == 403
        assert (await browser.post(PATH, fields, {"origin": "https://evil.example"})).status == 403
        assert (await it.browser().post(PATH, fields)).location == "/oauth/sign-in"
        assert (await browser.send("HEAD", PATH)).status == 200
        for side in (f"{PATH}.json", f"{PATH}/1002"):
            assert (await browser.get(side)).status == 404
        assert "data.exported" not in await it.events()

    run(tmp_path, story)
