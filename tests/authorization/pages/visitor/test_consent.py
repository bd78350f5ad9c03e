"""The consent page."""

import pytest

from tests.authorization.pages.examples.every import HOSTILE, PRINTER, consent, scopes
from tests.authorization.pages.reading import Element, Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render
from valetkey.authorization.site.consent import ChangedPart, ChangeShown, ConsentPage
from valetkey.kernel.replace import replace


def _read(page: ConsentPage) -> Reading:
    return Reading(render(page, brand=Brand()))


def _boxes(reading: Reading) -> list[Element]:
    return [e for e in reading.all("input") if e.attributes.get("type") == "checkbox"]


def test_page_has_the_ids_and_field_names_that_automation_uses() -> None:
    reading = _read(consent())

    for decision in ("allow", "deny"):
        button = reading.by_id(decision)
        assert button.name == "button"
        assert button.attributes["type"] == "submit"
        assert (button.attributes["name"], button.attributes["value"]) == ("decision", decision)
    assert {box.attributes["name"] for box in _boxes(reading)} == {"scope"}


def test_enter_key_in_a_checkbox_denies() -> None:
    # A browser sends a form with its first submit button.
    reading = _read(consent())

    form = reading.by_id("allow").holders[-2]

    assert next(reading.inside(form, "button")).attributes["id"] == "deny"


def test_only_optional_scopes_have_a_checkbox() -> None:
    reading = _read(consent(scopes=scopes(4, required=2)))

    assert [box.attributes["value"] for box in _boxes(reading)] == ["notes:write", "files:read"]
    assert all("checked" in box.attributes for box in _boxes(reading))
    assert reading.the("fieldset").text.count("always required") == 2


def test_cleared_checkboxes_stay_cleared_after_a_refusal() -> None:
    reading = _read(consent(scopes=scopes(3, chosen=False), nothing_chosen=True))

    assert not any("checked" in box.attributes for box in _boxes(reading))
    assert reading.by_id("message").attributes["role"] == "alert"
    assert reading.the("fieldset").attributes["aria-describedby"] == "message"


def test_self_registered_app_is_shown_as_not_reviewed() -> None:
    unchecked = replace(PRINTER, self_registered=True)

    assert "has not been reviewed" in _read(consent(unchecked)).by_id("unverified").text
    assert "has not been reviewed" not in _read(consent()).the("main").text


def test_page_shows_scopes_as_sentences_and_not_by_name() -> None:
    text = _read(consent(scopes=scopes(12))).the("main").text

    assert "This app wants to" in text
    assert "read your notes" in text
    assert "notes:read" not in text


def test_page_shows_the_app_the_account_and_the_redirect_host() -> None:
    reading = _read(consent())

    assert reading.the("h1").text == "Notes Printer wants to use your Valetkey account"
    assert "Ada Lovelace ada@example.com" in reading.the("main").text
    assert "You will be redirected to app.example." in reading.the("main").text


def test_page_says_that_an_app_is_not_verified() -> None:
    text = _read(consent(HOSTILE)).the("main").text

    assert "Not verified by Valetkey" in text


@pytest.mark.parametrize(
    ("lasts", "said"),
    [(3_600, "1 hour"), (86_400, "24 hours"), (2_592_000, "30 days"), (15_552_000, "180 days")],
)
def test_page_says_how_long_access_lasts(lasts: int, said: str) -> None:
    assert f"This access lasts at most {said}." in _read(consent(lasts=lasts)).the("main").text


def test_page_links_to_the_account_page_where_access_can_be_revoked() -> None:
    reading = _read(consent(account_url="/account/applications"))

    assert "You can revoke it at any time in your account. You will" in reading.the("main").text
    assert "/account/applications" in [a.attributes["href"] for a in reading.all("a")]


def test_page_lists_the_changes_of_the_app() -> None:
    changes = (
        ChangeShown(ChangedPart.NAME, "Old Printer"),
        ChangeShown(ChangedPart.LOGO),
        ChangeShown(ChangedPart.TERMS),
        ChangeShown(ChangedPart.PLACE),
    )

    text = _read(consent(changes=changes)).the("main").text

    assert "its name, which was Old Printer its logo its terms or privacy policy" in text
    assert "the address it takes you back to" in text
    assert "its name" in _read(consent(changes=(ChangeShown(ChangedPart.NAME),))).the("main").text


def test_account_switch_has_a_separate_form() -> None:
    reading = _read(consent())
    form = reading.by_id("switch-account").holders[-1]

    assert form.attributes["action"] == "/oauth/sign-in?interaction=1"
    assert [i.attributes["name"] for i in reading.inside(form, "input")] == ["csrf"]
