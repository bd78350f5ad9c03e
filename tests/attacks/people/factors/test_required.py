"""What a user who must add a second factor still reaches: every route, visited as one."""

from pathlib import Path

from tests.attacks.people.administration.doors import Need
from tests.attacks.people.administration.test_ad_routes import PEOPLE, of_need, sent, settle
from tests.support.harness import Harness, run
from tests.support.plain_browser import Answer, Browser
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.router import Route

REQUIRED = "/account/security/second-factor"
MARKED = ("bob", "member", "owner")
OPEN = {
    REQUIRED,
    "/account/security/passkeys/new",
    "/account/security/authenticator/new",
    "/account/confirm",
}
"""The pages that add a factor, and the confirmation of identity that they need."""

LEAVING = {"/oauth/sign-in", "/oauth/sign-out", "/oauth/logout"}
"""The pages that treat a signed-in user in another way than a stranger."""


async def marked(it: Harness) -> dict[str, Browser]:
    """Everybody's browsers, after some of those who are signed in have to add a factor."""
    browsers = await settle(it)

    def require(tx: Transaction) -> None:
        for name in MARKED:
            tx.users.require_factor(PEOPLE[name], it.clock.now)

    await it.write(require)
    return browsers


def stopped(answer: Answer) -> bool:
    return answer.status == 303 and answer.location.startswith(REQUIRED)


async def answers(browser: Browser, route: Route, path: str) -> list[Answer]:
    """What the route says to its methods, and to forms with and without a token."""
    responses = [await browser.get(path)] if "GET" in route.methods else []
    if "POST" in route.methods:
        responses += [await sent(browser, route, path, csrf=csrf) for csrf in (True, False)]
    return responses


def test_signed_in_user_reaches_nothing_but_the_pages_that_add_a_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await marked(it)
        seen = 0
        needs = (Need.SIGNED_IN, Need.DEVELOPER, Need.MEMBER, Need.ROLE)
        for path, route, door in of_need(it, *needs):
            browser = browsers["member" if door.need is Need.MEMBER else "owner"]
            if route.path in OPEN:
                assert (await browser.get(path)).status == 200, path
                continue
            for answer in await answers(browser, route, path):
                assert stopped(answer), (path, answer.status, answer.location)
                seen += 1
        assert seen >= 200

    run(tmp_path, story)


def test_public_pages_remain_open_to_a_user_who_must_add_a_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browsers = await marked(it)
        for path, route, _ in of_need(it, Need.ANYBODY, Need.LINK):
            if path in LEAVING:
                continue
            theirs = await answers(browsers["bob"], route, path)
            others = await answers(browsers["stranger"], route, path)
            for one, other in zip(theirs, others, strict=True):
                assert one.status == other.status or stopped(one), (path, one.status)
        bob = browsers["bob"]
        assert (await bob.get("/oauth/sign-in")).location == "/"
        page = await bob.get("/oauth/sign-out")
        assert (await bob.submit(page, "sign-out")).location == "/oauth/sign-out"
        assert (await bob.get(REQUIRED)).location.startswith("/oauth/sign-in")

    run(tmp_path, story)
