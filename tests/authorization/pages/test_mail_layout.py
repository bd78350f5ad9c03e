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
VALUES = {"username": "a" * 40, "link": LINK, "minutes": "20"}
# Colors as the browser computes them, and whether anything is wider than the window.
LOOKS = """() => {
    const hex = colour => '#' + colour.match(/\\d+/g).slice(0, 3)
        .map(part => Number(part).toString(16).padStart(2, '0')).join('');
    const button = getComputedStyle(document.querySelector('.button'));
    const text = getComputedStyle(document.querySelector('main p'));
    const ground = getComputedStyle(document.querySelector('main'));
    return {
        button: [hex(button.color), hex(button.backgroundColor)],
        text: [hex(text.color), hex(ground.backgroundColor)],
        fits: document.documentElement.scrollWidth <= window.innerWidth,
        buttons: document.querySelectorAll('.button').length,
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


@pytest.mark.parametrize("accent", ["#2456d6", "#ffee00"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_email_is_readable(
    browser: Browser, scheme: Literal["light", "dark"], accent: str
) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    for width in (320, 800):
        page.set_viewport_size({"width": width, "height": 600})
        for kind, language in (
            (EmailKind.PASSWORD_RESET, "en"),
            (EmailKind.VERIFY_EMAIL, "de"),
        ):
            page.set_content(_html(kind, language, accent))
            found = page.evaluate(LOOKS)
            assert found["fits"], (kind, width)
            assert found["buttons"] == 1
            assert contrast(*found["button"]) >= TEXT_CONTRAST
            assert contrast(*found["text"]) >= TEXT_CONTRAST
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
