"""Emails in a real browser: light, dark, wide and narrow, with one readable button."""

import re
from html import unescape
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from valetkey.authorization.email.message import message_of
from valetkey.authorization.layout.assets import LIGHT_CARD
from valetkey.authorization.layout.brand import TEXT_CONTRAST, Brand, accent_shades, contrast
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
    // Only a button is a link in a cell with a color of its own.
    const ground_of = each => getComputedStyle(each.closest('td')).backgroundColor;
    const buttons = [...document.querySelectorAll('td > a')];
    const text = getComputedStyle(document.querySelector('h1 ~ p'));
    const ground = getComputedStyle(document.querySelector('h1').closest('td'));
    return {
        buttons: buttons.map(each => [hex(getComputedStyle(each).color), hex(ground_of(each))]),
        text: [hex(text.color), hex(ground.backgroundColor)],
        fits: document.documentElement.scrollWidth <= window.innerWidth,
    };
}"""

LINKS = "[...document.querySelectorAll('a')].map(each => [each.href, each.innerText.trim()])"
PURIFY = Path(__file__).parents[2] / "clients/node_modules/dompurify/dist/purify.min.js"
"""A sanitizer that mail readers on the web use."""

WORD_KEEPS = (
    "background-color", "border", "border-top", "color", "font-family", "font-size", "font-weight",
    "line-height", "margin", "text-align", "text-decoration", "width",
)  # fmt: skip
"""Properties that Word lays out, and with it Outlook for Windows; padding only of cells."""

WEB_KEEPS = (
    "border-radius", "display", "max-width", "mso-padding-alt", "overflow-wrap", "padding",
    "word-break",
)  # fmt: skip
"""What Gmail keeps beside these, and the padding of Word's buttons."""

GMAIL_SHEET, GMAIL_CLIPS = 8_192, 102_400
"""Characters of a style sheet and bytes of an email that Gmail keeps."""

# Web readers drop the style sheet and names; Word knows few properties and no rounded corner.
WASHED = """([html, keeps]) => {
    document.body.innerHTML = DOMPurify.sanitize(html, {
        FORBID_TAGS: ['style', 'link', 'meta', 'title', 'form', 'img', 'svg'],
        FORBID_ATTR: ['class', 'id', 'name'],
    });
    document.body.removeAttribute('style');
    for (const each of keeps ? document.body.querySelectorAll('[style]') : []) {
        const cell = each.tagName === 'TD';
        for (const name of [...each.style])
            if (name.endsWith('radius')
                || !keeps.some(kept => name === kept || name.startsWith(kept + '-'))
                && !(cell && name.startsWith('padding'))) each.style.removeProperty(name);
    }
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
def test_emails_fit_with_good_contrast(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    with_button = set[EmailKind]()
    for width, language, accent in ((320, "de", "#2456d6"), (800, "en", "#ffee00")):
        page.set_viewport_size({"width": width, "height": 600})
        for kind in EmailKind:
            page.set_content(_html(kind, language, accent))
            looks = page.evaluate(LOOKS)
            assert looks["fits"], (kind, width)
            assert contrast(*looks["text"]) >= TEXT_CONTRAST
            # A user who has an account already can sign in, or reset the password.
            most = 2 if kind is EmailKind.SIGN_UP_TAKEN else 1
            assert len(looks["buttons"]) <= most, kind
            for colors in looks["buttons"]:
                assert contrast(*colors) >= TEXT_CONTRAST, kind
                with_button.add(kind)
    assert {EmailKind.PASSWORD_RESET, EmailKind.VERIFY_EMAIL, EmailKind.NEW_DEVICE} <= with_button
    context.close()


@pytest.mark.parametrize("reader", ["web", "word"])
def test_email_stays_readable_after_mail_clients_remove_styles(
    browser: Browser, reader: Literal["web", "word"]
) -> None:
    """What mail readers on the web and Outlook for Windows leave of an email is whole."""
    page = browser.new_page(viewport={"width": 800, "height": 600})
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    for kind in EmailKind:
        html = _html(kind, "de", "#ffee00")
        page.set_content(html)
        whole, links = page.inner_text("body"), page.evaluate(LINKS)
        page.set_content("")
        page.add_script_tag(path=PURIFY)
        page.evaluate(WASHED, [html, WORD_KEEPS if reader == "word" else None])
        assert page.locator("[class], style, meta").count() == 0
        assert page.inner_text("body").split() == whole.split(), kind
        assert page.evaluate(LINKS) == links, kind
        looks = page.evaluate(LOOKS)
        # Word breaks long words without being asked.
        assert looks["fits"] or reader == "word", kind
        assert contrast(*looks["text"]) >= TEXT_CONTRAST
        for colors in looks["buttons"]:
            assert contrast(*colors) >= TEXT_CONTRAST, kind
            assert colors[1] == accent_shades("#ffee00", LIGHT_CARD).fill, kind
        assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize") == "22px"
    assert not [url for url in urls if url.startswith("http")], "an email loads something"
    page.close()


def test_every_email_uses_only_what_readers_on_the_web_and_word_support() -> None:
    """Gmail drops a style sheet that it cannot read whole; Word ignores max-width."""
    for kind in EmailKind:
        html = _html(kind, "de", "#ffee00")
        (sheet,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
        assert len(html.encode()) < GMAIL_CLIPS, kind
        assert len(sheet) < GMAIL_SHEET, kind
        assert re.findall(r"@[a-z-]+", sheet) == ["@media", "@media"]
        assert not re.search(r"url\(|/\*|@media[^{]*\{[^{}]*@", sheet)
        for style in map(unescape, re.findall(r'style="([^"]*)"', html)):
            names = {
                declaration.partition(":")[0].strip()
                for declaration in style.split(";")
                if declaration.strip()
            }
            assert names <= {*WORD_KEEPS, *WEB_KEEPS}, (kind, names)
            if "font-family" in names:
                # Word shows Times New Roman if it does not know the first font.
                assert re.search(r"font-family:\s*'Segoe UI'", style), kind
        wide = re.search(
            r"<!--\[if mso\]><table[^>]* width=\"560\"[^>]*><tr><td><!\[endif\]-->", html
        )
        assert wide, kind
        assert html.count("<!--[if mso]></td></tr></table><![endif]-->") == 1


def test_links_of_an_email_are_plain_in_text_and_html() -> None:
    for kind in EmailKind:
        email = Email(kind, "ada@example.com", "en", VALUES, None)
        message = message_of(
            email,
            brand=Brand("Acme"),
            mail_id="m1",
            from_address="no-reply@auth.example",
            from_name="",
            at=Instant(1_800_000_000),
        )
        html, text = (message.get_body((subtype,)) for subtype in ("html", "plain"))
        assert html is not None
        assert text is not None
        shown = set(re.findall(r'href="([^"]*)"[^>]*>([^<]*)<', html.get_content()))
        # Each address is readable as itself, below its button, and is in the text.
        for address, _ in shown:
            assert (address, address) in shown, kind
            assert address in text.get_content()
        assert set(re.findall(r"https?://\S+", text.get_content())) == {link for link, _ in shown}


def test_value_cannot_inject_a_button() -> None:
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
