"""Remembered devices: the second factor is spared for thirty days, and copies are noticed."""

from os import urandom
from pathlib import Path

from tests.authorization.endpoints.account.people import knows
from tests.authorization.endpoints.account.security.factors import (
    after_password,
    code,
    with_app,
)
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Browser
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.authentication.factors import PERIOD, FreshDevice
from valetkey.kernel.moment import days, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey, Prefix, fresh_secret

DEVICE = "__Host-device"


async def remembered(it: Harness, key: bytes) -> Browser:
    """A browser in which somebody asked to be spared the second factor."""
    browser = it.browser()
    page = await after_password(it, browser)
    done = await browser.submit(page, "with-code", code=code(it, key), remember="yes")
    assert done.location == "/", done.body
    assert DEVICE in browser.cookies
    return browser


async def is_asked(it: Harness, browser: Browser) -> bool:
    for name in ("__Host-session", "__Host-browser-state"):
        browser.cookies.pop(name, None)
    await after_password(it, browser)
    return "__Host-session" not in browser.cookies


def test_remembered_device_skips_the_second_factor_for_thirty_days(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = await remembered(it, key)
        # A clock that was ahead extends nothing.
        it.clock.forward(-61)
        assert await is_asked(it, browser)
        it.clock.forward(61)
        before = browser.cookies[DEVICE]
        assert not await is_asked(it, browser)
        assert browser.cookies[DEVICE] != before
        it.clock.forward(days(30))
        assert await is_asked(it, browser)
        assert await is_asked(it, it.browser())

    run(tmp_path, story, database_url)


def test_step_up_on_a_remembered_device_requires_the_second_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = await remembered(it, key)
        assert not await is_asked(it, browser)
        path = "/account/security/recovery-codes"
        assert (await browser.get(path)).location == f"/account/confirm?to={path}"
        page = await browser.get("/account/confirm", to=path)
        assert (await browser.submit(page, "with-code", code="", password=PASSWORD)).status == 401
        assert (await browser.get(path)).location == f"/account/confirm?to={path}"
        it.clock.forward(PERIOD)
        done = await browser.submit(page, "with-code", code=code(it, key))
        assert done.location == path
        assert (await browser.get(path)).status == 200

    run(tmp_path, story)


def test_lg_17_replayed_device_cookie_ends_the_device_and_its_session(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        mine = await remembered(it, key)
        stolen = mine.cookies[DEVICE]
        assert not await is_asked(it, mine)
        it.clock.forward(minutes(5))
        thief = it.browser({DEVICE: stolen})
        assert await is_asked(it, thief)
        # Whoever has the newer cookie is asked as well, and the session of the device has ended.
        assert (await mine.get("/account/apps")).status == 303
        assert await is_asked(it, mine)
        assert "device.stolen" in await it.events()

    run(tmp_path, story, database_url)


def test_lg_17_invented_secret_of_a_known_device_ends_nothing(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        mine = await remembered(it, key)
        device_id, _, current = mine.cookies[DEVICE].partition(".")
        other_key = FingerprintKey(b"x" * 32)
        invented = (
            fresh_secret(Prefix.DEVICE, urandom).reveal(),
            FreshDevice.draw(urandom, other_key).secret(device_id).reveal(),
            # A secret that this server made, for another device.
            FreshDevice.draw(urandom, it.server.keyring.fingerprint_key)
            .secret("rd_other")
            .reveal(),
        )
        assert not await is_asked(it, mine)
        it.clock.forward(minutes(5))
        for secret in invented:
            assert await is_asked(it, it.browser({DEVICE: f"{device_id}.{secret}"}))
        assert (await mine.get("/account/apps")).status == 200
        assert not await is_asked(it, mine)
        assert "device.stolen" not in await it.events()
        # The first cookie was issued here, and is one too old.
        assert await is_asked(it, it.browser({DEVICE: f"{device_id}.{current}"}))
        assert "device.stolen" in await it.events()

    run(tmp_path, story, database_url)


def test_simultaneous_sign_ins_of_one_device_are_not_treated_as_theft(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        mine = await remembered(it, key)
        other = it.browser(dict(mine.cookies))
        assert not await is_asked(it, mine)
        assert not await is_asked(it, other)
        assert (await mine.get("/account/apps")).status == 200

    run(tmp_path, story)


def test_device_is_remembered_for_one_account_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it, "bob")
        await with_app(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        word = "correct horse battery staple"
        page = await browser.follow(
            await browser.submit(page, "sign-in", username="bob", password=word)
        )
        await browser.submit(page, "with-code", code=code(it, key), remember="yes")
        assert await is_asked(it, browser)

    run(tmp_path, story)


def test_remembered_device_is_listed_and_can_be_forgotten(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, key, _ = await with_app(it)
        mine = await remembered(it, key)
        page = await alice.get("/account/security")
        assert knows(page, "Remembered devices")
        (device,) = await it.store.read(lambda tx: tx.devices.of_user(ALICE.uid, it.clock.now))
        done = await alice.submit(page, "forget-1", device=device.id)
        assert done.location == "/account/security?done=device-forgotten"
        assert await is_asked(it, mine)
        assert (await alice.submit(page, "forget-1", device=device.id)).status == 404
        assert (await alice.submit(page, "forget-1", device="x\u00e9")).status == 404

    run(tmp_path, story)


def test_password_change_forgets_remembered_devices(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, key, _ = await with_app(it)
        await remembered(it, key)
        page = await alice.get("/account/security/password")
        typed = {"new": "another long password", "again": "another long password"}
        await alice.submit(page, "change", current="correct horse battery staple", **typed)
        assert not await it.store.read(lambda tx: tx.devices.of_user(ALICE.uid, it.clock.now))

    run(tmp_path, story)


def test_essential_two_factor_acr_requires_the_factor_on_remembered_device(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        mine = await remembered(it, key)
        await it.change(replace(WEB, scope=WEB.scope | Scope.of("openid")))
        for name in ("__Host-session", "__Host-browser-state"):
            mine.cookies.pop(name, None)
        acr = '{"id_token":{"acr":{"essential":true,"value":"urn:valetkey:acr:two_factors"}}}'
        page = await mine.sign_in(await mine.ask(scope="openid read", claims=acr))
        assert knows(page, "One more step")
        consent = await mine.follow(await mine.submit(page, "with-code", code=code(it, key, 1)))
        assert (await mine.allow(consent)).told["code"]

    run(tmp_path, story)
