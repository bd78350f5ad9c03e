"""`prompt=create` shows the sign-up page (Initiating User Registration via OpenID Connect 1.0)."""

import json
from pathlib import Path

import pytest

from tests.authorization.endpoints.authorize.openid import (
    ask,
    asks_whether,
    asks_who,
    begin,
    payload,
    said,
)
from tests.authorization.endpoints.mailed.post import BOX, OPEN, OTHER, link_of, only
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.interaction import LIFETIME
from valetkey.config.sections.people import AccountSettings, SignUpMode

TYPED = {"username": "grace", "email": "grace@example.com", "name": "Grace", "new": OTHER}


def is_sign_up(page: Answer) -> bool:
    return 'id="create"' in page.body


async def account(it: Harness, name: str) -> User:
    user = await it.read(lambda tx: tx.users.find_by_name(name))
    assert user is not None
    return user


async def create(browser: Browser, page: Answer) -> Answer:
    """The page after the form, where no email confirms an account."""
    return await browser.follow(await browser.submit(page, "create", **TYPED))


def test_new_user_signs_up_consents_and_returns_to_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        visitor = it.browser()
        page = await ask(visitor, prompt="create", nonce="2")
        assert is_sign_up(page)
        assert "to continue to" in page.body
        page = await create(visitor, page)
        assert asks_whether(page)
        response = said(await visitor.allow(page))
        assert (await payload(it, response.fields["code"])).uid == (await account(it, "grace")).uid

    run(tmp_path, story, accounts=OPEN)


def test_request_goes_on_from_the_link_in_the_email(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        visitor = it.browser()
        page = await ask(visitor, prompt="create", nonce="2")
        page = await visitor.submit(page, "create", **TYPED)
        # Emails may take longer than a page may be open.
        it.clock.forward(LIFETIME)
        page = await visitor.get(link_of(await only(it, EmailKind.SIGN_UP)))
        page = await visitor.follow(await visitor.submit(page, "finish"))
        assert asks_whether(page)
        response = said(await visitor.allow(page))
        assert (await payload(it, response.fields["code"])).uid == (await account(it, "grace")).uid

    run(tmp_path, story, accounts=OPEN, mail=BOX)


def test_signed_in_user_is_offered_a_new_account(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        page = await ask(alice, prompt="create", nonce="2")
        assert is_sign_up(page)
        page = await create(alice, page)
        assert asks_whether(page)
        response = said(await alice.allow(page))
        assert (await payload(it, response.fields["code"])).uid == (await account(it, "grace")).uid

    run(tmp_path, story, accounts=OPEN)


def test_user_who_has_an_account_signs_in_from_the_sign_up_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        visitor = it.browser()
        page = await ask(visitor, prompt="create", nonce="2")
        (way,) = {part.split('"')[0] for part in page.body.split('href="/oauth/sign-in')[1:]}
        page = await visitor.get(f"/oauth/sign-in{way}".replace("&amp;", "&"))
        assert asks_who(page)
        response = said(await visitor.sign_in(page))
        assert (await payload(it, response.fields["code"])).uid == ALICE.uid

    run(tmp_path, story, accounts=OPEN)


def test_visitor_goes_back_to_the_app_without_an_account(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        visitor = it.browser()
        page = await ask(visitor, prompt="create", nonce="2")
        answer = await visitor.submit(page, "cancel", decision="deny")
        response = said(await visitor.follow(answer))
        assert response.fields["error"] == "access_denied"

    run(tmp_path, story, accounts=OPEN)


@pytest.mark.parametrize("prompt", ["create consent", "login create", "create select_account"])
def test_prompt_create_beside_others_shows_the_sign_up_page(tmp_path: Path, prompt: str) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        page = await ask(alice, prompt=prompt, nonce="2")
        assert is_sign_up(page)
        page = await create(alice, page)
        assert asks_whether(page)
        assert "code" in said(await alice.allow(page)).names

    run(tmp_path, story, accounts=OPEN)


def test_prompt_create_beside_none_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = await begin(it)
        response = said(await ask(alice, prompt="none create", nonce="2"))
        assert response.fields["error"] == "invalid_request"

    run(tmp_path, story, accounts=OPEN)


@pytest.mark.parametrize(("hint", "field"), [("g@example.com", "email"), ("gg", "username")])
def test_login_hint_is_in_the_sign_up_form(tmp_path: Path, hint: str, field: str) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        page = await ask(it.browser(), prompt="create", login_hint=hint, nonce="2")
        (shown,) = [part for part in page.body.split("<input") if f'name="{field}"' in part]
        assert f'value="{hint}"' in shown

    run(tmp_path, story, accounts=OPEN)


@pytest.mark.parametrize(
    ("mode", "supported"),
    [(SignUpMode.OPEN, True), (SignUpMode.INVITATION, False), (SignUpMode.OFF, False)],
)
def test_prompt_create_is_announced_where_it_works_and_refused_elsewhere(
    tmp_path: Path, mode: SignUpMode, *, supported: bool
) -> None:
    async def story(it: Harness) -> None:
        await begin(it)
        metadata = await it.browser().get("/.well-known/openid-configuration")
        announced = json.loads(metadata.body)["prompt_values_supported"]
        usual = ["none", "login", "consent", "select_account"]
        assert announced == ([*usual, "create"] if supported else usual)
        page = await ask(it.browser(), prompt="create", nonce="2")
        if supported:
            assert is_sign_up(page)
            return
        response = said(page)
        assert response.fields["error"] == "invalid_request"
        assert "select_account" in response.fields["error_description"]
        assert "create" not in response.fields["error_description"]

    run(tmp_path, story, accounts=AccountSettings(sign_up=mode))
