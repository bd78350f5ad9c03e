"""Emails in a real browser: light, dark, wide and narrow, with one readable button."""

from typing import Literal

import pytest
from playwright.sync_api import Browser

from valetkey.authorization.email.message import message_of
from valetkey.authorization.layout.accent import TEXT_CONTRAST, contrast
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.kernel.moment import Instant

LINK = f"https://auth.example/account/verify?link=vk_ln_{'x' * 43}"
# What the templates of all kinds use, each as long as it gets.
VALUES = {
    **dict.fromkeys(("link", "look", "sessions", "forgotten", "security", "sign_in"), LINK),
    **dict.fromkeys(("username", "app", "host", "by_name", "browser", "system", "user"), "a" * 60),
    **dict.fromkeys(("minutes", "days", "left"), "20"),
    "address": f"{'a' * 60}@{'x' * 60}.example",
    "time": "2026-11-24 03:40:12 UTC",
    "way": "passkey",
    "role": "support",
    "because": "full",
    "by": "person",
    "change": "edited",
    "fields": f"Name|{'a' * 60}",
    "page": "yes",
}
# Colors as the browser computes them, and whether anything is wider than the window.
LOOKS = """() => {
    const hex = colour => '#' + colour.match(/\\d+/g).slice(0, 3)
        .map(part => Number(part).toString(16).padStart(2, '0')).join('');
    const buttons = [...document.querySelectorAll('.button')].map(each => getComputedStyle(each));
    const text = getComputedStyle(document.querySelector('main p'));
    const ground = getComputedStyle(document.querySelector('main'));
    return {
        buttons: buttons.map(each => [hex(each.color), hex(each.backgroundColor)]),
        text: [hex(text.color), hex(ground.backgroundColor)],
        fits: document.documentElement.scrollWidth <= window.innerWidth,
    };
}"""


def _html(kind: EmailKind, language: str, accent: str) -> str:
    email = Email(kind, "ada@example.com", language, VALUES, None)
    message = message_of(
        email,
        brand=Brand("Notes & more", accent=accent),
        mail_id="m1",
        from_address="no-reply@auth.example",
        from_name="",
        at=Instant(1_800_000_000),
    )
    part = message.get_body(("html",))
    assert part is not None
    return str(part.get_content())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_email_is_readable(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    with_button = set[EmailKind]()
    for width, language, accent in ((320, "de", "#2456d6"), (800, "en", "#ffee00")):
        page.set_viewport_size({"width": width, "height": 600})
        for kind in EmailKind:
            page.set_content(_html(kind, language, accent))
            found = page.evaluate(LOOKS)
            assert found["fits"], (kind, width)
            assert contrast(*found["text"]) >= TEXT_CONTRAST
            # A user who has an account already can sign in, or reset the password.
            most = 2 if kind is EmailKind.SIGN_UP_TAKEN else 1
            assert len(found["buttons"]) <= most, kind
            for colors in found["buttons"]:
                assert contrast(*colors) >= TEXT_CONTRAST, kind
                with_button.add(kind)
    assert {EmailKind.PASSWORD_RESET, EmailKind.VERIFY_EMAIL, EmailKind.NEW_DEVICE} <= with_button
    context.close()


def test_values_make_no_button() -> None:
    values = VALUES | {"username": "\x01https://evil.example"}
    email = Email(EmailKind.VERIFY_EMAIL, "ada@example.com", "en", values, None)
    message = message_of(
        email,
        brand=Brand("Acme"),
        mail_id="m1",
        from_address="no-reply@auth.example",
        from_name="",
        at=Instant(1_800_000_000),
    )
    part = message.get_body(("html",))
    assert part is not None
    assert part.get_content().count('class="button"') == 1
    assert 'href="https://evil.example"' not in part.get_content()
