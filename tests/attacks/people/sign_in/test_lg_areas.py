"""LG-01: the token of a form counts in its area, session and browser, and nowhere else."""

import re
from itertools import permutations
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.admin.people import administrator
from tests.support.harness import Harness
from tests.support.plain_browser import Answer
from tests.support.visitors import BOB, run
from valetkey.authorization.portal.settings import PortalSettings, Registrants

FORMS = {
    "/account/profile": "/account/profile",
    "/developer/new?kind=server": "/developer/new?kind=server",
    f"/admin/users/{BOB.uid}/reset-factors": f"/admin/users/{BOB.uid}/reset-factors",
    "/device": "/device",
}
"""A form of each area for signed-in users: its page, and where it is sent."""


def token(page: Answer) -> str:
    match = re.search(r'name="csrf"\s+value="([^"]+)"', page.body)
    assert match is not None, page.body
    return match[1]


@pytest.mark.parametrize(("page", "other"), list(permutations(FORMS, 2)))
def test_lg_01_csrf_token_of_another_area_is_refused(tmp_path: Path, page: str, other: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        taken = token(await browser.get(page))
        assert (await browser.post(FORMS[other], {"csrf": taken})).status == 403
        assert "user.factors_reset" not in await it.events()
        own = token(await browser.get(other))
        assert own != taken
        assert (await browser.post(FORMS[other], {"csrf": own})).status != 403

    run(tmp_path, story, portal=PortalSettings(who=Registrants.EVERYONE))


@pytest.mark.parametrize("page", FORMS)
def test_lg_01_csrf_token_is_bound_to_its_session_and_browser(tmp_path: Path, page: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        taken = token(await browser.get(page))
        there = await signed_in(it)
        assert (await there.get("/admin")).status == 200
        assert (await there.post(FORMS[page], {"csrf": taken})).status == 403
        # The same browser, signed in again.
        await browser.submit(await browser.get("/oauth/sign-out"), "sign-out")
        sign_in = await browser.get("/oauth/sign-in")
        await browser.sign_in(sign_in)
        assert (await browser.get("/admin")).status == 200
        assert (await browser.post(FORMS[page], {"csrf": taken})).status == 403

    run(tmp_path, story, portal=PortalSettings(who=Registrants.EVERYONE))
