"""MF: second factors under attack, from foreign challenges to bombs of CBOR."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fido2 import cbor

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.account.security.factors import (
    after_password,
    code,
    options,
    with_app,
    with_passkey,
)
from tests.support.authenticator import PRESENT, SoftAuthenticator
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, run
from valetkey.authorization.authentication.passkey import LIFETIME
from valetkey.authorization.authentication.session import PROOF_LASTS
from valetkey.config.sections.people import FactorSettings
from valetkey.kernel.secret import to_base64url

MATTERS = (
    "/account/security/passkeys/new",
    "/account/security/authenticator/new",
    "/account/security/authenticator/remove",
    "/account/security/recovery-codes",
    "/account/security/password",
    "/account/security/password/remove",
)


async def press(browser: Browser, page: Answer, credential: str) -> int:
    return (await browser.submit(page, "passkey", credential=credential)).status


def test_mf_05_password_alone_does_not_confirm_a_user_with_a_second_factor(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        alice, key, _ = await with_app(it)
        it.clock.forward(PROOF_LASTS)
        for path in MATTERS:
            answer = await alice.get(path)
            assert answer.location == f"/account/confirm?to={path}", path
        page = await alice.get("/account/confirm")
        _, fields = page.form("with-code")
        refused = await alice.post("/account/confirm", {**fields, "password": PASSWORD})
        assert refused.status == 401
        assert (await alice.get(MATTERS[0])).status == 303
        right = await alice.submit(page, "with-code", code=code(it, key))
        assert right.location == "/"
        assert (await alice.get(MATTERS[0])).status == 200

    run(tmp_path, story, database_url)


def test_mf_05_password_change_does_not_renew_the_second_factor_proof(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        it.clock.forward(PROOF_LASTS - 31)
        page = await alice.get("/account/security/password")
        new = "another good long password"
        await alice.submit(page, "change", current=PASSWORD, new=new, again=new)
        it.clock.forward(60)
        assert (await alice.get(MATTERS[0])).status == 303

    run(tmp_path, story)


def test_mf_05_form_opened_before_the_proof_expired_needs_a_new_proof(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        removal = await alice.get("/account/security/authenticator/remove")
        codes = await alice.get("/account/security/recovery-codes")
        it.clock.forward(PROOF_LASTS)
        for page, button in ((removal, "remove"), (codes, "make")):
            assert "/account/confirm" in (await alice.submit(page, button)).location
        assert await it.store.read(lambda tx: tx.users.has_second_factor(ALICE.uid))

    run(tmp_path, story)


def test_mf_07_contact_fields_in_the_second_factor_form_are_ignored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        fields = {"code": "000000", "email": "eve@evil.example", "phone": "+1", "uid": "1002"}
        answer = await browser.submit(page, "with-code", **fields)
        assert answer.status == 401
        assert "evil" not in answer.body

    run(tmp_path, story)


async def _from_another_purpose(it: Harness, device: SoftAuthenticator) -> str:
    page = await after_password(it)
    return device.get(options(page))


async def _from_another_browser(it: Harness, device: SoftAuthenticator) -> str:
    return device.get(options(await it.browser().get("/oauth/sign-in")))


async def _of_a_registration(it: Harness, device: SoftAuthenticator) -> str:
    page = await (await signed_in(it, "bob")).get("/account/security/passkeys/new")
    registration = json.loads(options(page))
    return device.get(json.dumps({"challenge": registration["challenge"]}))


async def _made_up(it: Harness, device: SoftAuthenticator) -> str:
    return device.get(json.dumps({"challenge": to_base64url(b"x" * 32)}))


@pytest.mark.parametrize(
    "make", [_from_another_purpose, _from_another_browser, _of_a_registration, _made_up]
)
def test_mf_11_challenge_of_another_purpose_or_browser_is_refused(
    tmp_path: Path, make: Callable[..., object]
) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        foreign = await make(it, device)  # type: ignore[misc]
        assert await press(browser, page, str(foreign)) == 401
        assert await press(browser, page, device.get(options(page))) == 303

    run(tmp_path, story)


def test_mf_11_challenge_is_accepted_once_and_expires(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        answer = device.get(options(page))
        assert await press(browser, page, answer) == 303
        assert await press(browser, page, answer) == 401
        page = await it.browser().get("/oauth/sign-in")
        late = it.browser()
        page = await late.get("/oauth/sign-in")
        answer = device.get(options(page))
        it.clock.forward(LIFETIME)
        assert await press(late, page, answer) == 401

    run(tmp_path, story)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "https://evil.example"},
        {"origin": "https://sub.auth.example"},
        {"origin": "http://auth.example"},
        {"origin": "https://auth.example:8443"},
        {"origin": None},
        {"type": "webauthn.create"},
        {"crossOrigin": True},
        {"challenge": 7},
    ],
    ids=str,
)
def test_mf_11_passkey_assertion_for_another_origin_is_refused(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        assert await press(browser, page, device.get(options(page), changed=changed)) == 401

    run(tmp_path, story)


def test_mf_11_assertion_of_another_domain_or_unverified_user_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        device.flags = PRESENT
        assert await press(browser, page, device.get(options(page))) == 401
        device.flags = 0
        assert await press(browser, page, device.get(options(page))) == 401
        device.flags = PRESENT | 4
        device.keys[0].domain = "evil.example"
        assert await press(browser, page, device.get(options(page))) == 401

    run(tmp_path, story)


def test_mf_11_bobs_passkey_is_no_second_factor_of_alice(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await with_passkey(it)
        _, bobs = await with_passkey(it, "bob")
        browser = it.browser()
        page = await after_password(it, browser)
        assert await press(browser, page, bobs.get(options(page))) == 401
        # Nor under her name.
        page = await browser.get("/oauth/sign-in")
        bobs.keys[0].user = b"x" * 32
        assert await press(browser, page, bobs.get(options(page))) == 401

    run(tmp_path, story)


@pytest.mark.parametrize("refuses", [True, False])
def test_mf_13_fallen_passkey_counter_is_recorded_and_refused_if_configured(
    tmp_path: Path, refuses: bool
) -> None:
    async def story(it: Harness) -> None:
        alice, device = await signed_in(it), SoftAuthenticator(counts=True)
        page = await alice.get("/account/security/passkeys/new")
        await alice.submit(page, "add", name="Stick", credential=device.create(options(page)))
        for _ in range(3):
            browser = it.browser()
            page = await browser.get("/oauth/sign-in")
            assert await press(browser, page, device.get(options(page))) == 303
        device.keys[0].counter = 1
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        status = await press(browser, page, device.get(options(page)))
        assert status == (401 if refuses else 303)
        assert (await it.events()).count("passkey_counter.fallen") == 1

    run(tmp_path, story, factors=FactorSettings(refuse_fallen_counters=refuses))


def _bombs() -> dict[str, bytes]:
    return {
        "deep": b"\x81" * 5_000,
        "deep maps": b"\xa1\x00" * 2_500,
        "huge count": b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        "huge map": b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00",
        "huge text": b"\x7b\x00\x00\x00\xff\xff\xff\xff\xff",
        "nothing": b"\xa0",
        "odd": b"\xff\xff",
        "no data": cbor.encode({"fmt": "none", "attStmt": {}, "authData": b""}),
        "short data": cbor.encode({"fmt": "none", "attStmt": {}, "authData": b"x" * 36}),
        "wrong length": cbor.encode(
            {"fmt": "none", "attStmt": {}, "authData": b"x" * 32 + b"\x45" + b"\xff" * 30}
        ),
        "text for data": cbor.encode({"fmt": "none", "attStmt": {}, "authData": "x" * 60}),
        "a list": cbor.encode([1, 2, 3]),
    }


@pytest.mark.parametrize("bomb", _bombs().values(), ids=_bombs().keys())
def test_mf_15_cbor_bombs_are_refused(tmp_path: Path, bomb: bytes) -> None:
    async def story(it: Harness) -> None:
        alice, device = await signed_in(it), SoftAuthenticator()
        page = await alice.get("/account/security/passkeys/new")
        answer = json.loads(device.create(options(page)))
        answer["response"]["attestationObject"] = to_base64url(bomb)
        refusal = await alice.submit(page, "add", name="x", credential=json.dumps(answer))
        assert refusal.status == 400
        assert knows(refusal, "That did not work")

    run(tmp_path, story)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "x" * 9_000,
        '{"type":"public-key"}',
        "[" * 5_000,
        '{"type":"public-key","rawId":"AA","response":{}}',
        '{"type":"public-key","rawId":7,"response":[]}',
        '{"a":1,"a":1}',
        "\u2028\ufeff",
        '{"type":"public-key","rawId":"AB==","response":{"clientDataJSON":"e30"}}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_mf_15_malformed_passkey_assertion_is_refused_without_server_error(
    tmp_path: Path, text: str
) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        assert await press(browser, page, text) == 401

    run(tmp_path, story)


def test_mf_15_assertion_with_a_changed_byte_is_refused_with_status_401(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, device = await with_passkey(it)
        browser = it.browser()
        page = await browser.get("/oauth/sign-in")
        good = json.loads(device.get(options(page)))
        for part in ("authenticatorData", "signature", "clientDataJSON", "userHandle"):
            text = good["response"][part]
            for position in range(0, len(text), max(1, len(text) // 12)):
                letter = "A" if text[position] != "A" else "B"
                bad = text[:position] + letter + text[position + 1 :]
                sent = json.dumps(good | {"response": good["response"] | {part: bad}})
                assert await press(browser, page, sent) == 401
        assert await press(browser, page, json.dumps(good)) == 303

    run(tmp_path, story)
