"""Codes are accepted as people type, paste and scan them, at every page that asks for one."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.account.security.factors import after_password, code, with_app
from tests.support.harness import NOON, Harness
from tests.support.visitors import WEB, run
from valetkey.authorization.model.client import ClientType
from valetkey.kernel.replace import replace

_WIDE = {ord("0") + n: 0xFF10 + n for n in range(10)} | {
    ord("A") + n: 0xFF21 + n for n in range(26)
}


def _wide(text: str) -> str:
    """Return the text as a Japanese keyboard writes it."""
    return text.translate(_WIDE).replace("-", "－")


def _grouped(text: str) -> str:
    return f"\u200b{text[:3]}\u00a0{text[3:]} "


@pytest.mark.parametrize("spelling", [_wide, _grouped])
def test_authenticator_and_recovery_codes_are_accepted_in_every_spelling(
    tmp_path: Path, spelling: Callable[[str], str]
) -> None:
    async def story(it: Harness) -> None:
        _, key, recovery = await with_app(it)
        for fields in ({"code": spelling(code(it, key))}, {"recovery": spelling(recovery[0])}):
            browser = it.browser()
            page = await after_password(it, browser)
            button = "with-code" if "code" in fields else "with-recovery"
            # A browser must not refuse what the server accepts.
            assert "pattern=" not in page.body
            done = await browser.submit(page, button, **fields)
            assert (done.status, 'id="code"' in done.body) == (303, False), done.body

    run(tmp_path, story)


def test_device_code_is_accepted_in_every_spelling(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        device = replace(
            WEB,
            id="tv",
            type=ClientType.PUBLIC,
            authentication_method="none",
            grant_types=frozenset({grant}),
            created_at=NOON,
        )
        await it.register(device)
        begun = await it.browser().post("/oauth/device-authorization", {"client_id": "tv"})
        user_code = json.loads(begun.body)["user_code"]
        browser = await signed_in(it)
        for typed in (_wide(user_code), user_code.lower().replace("-", "\u2011"), f"{user_code}."):
            page = await browser.get("/device")
            answer = await browser.submit(page, "continue", user_code=typed)
            assert answer.location == f"/device/{user_code}", answer.body
            scanned = await browser.get(f"/device/{quote(typed, safe='')}")
            assert 'id="allow"' in scanned.body, scanned.body

    run(tmp_path, story)
