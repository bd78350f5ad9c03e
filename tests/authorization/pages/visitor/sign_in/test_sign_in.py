"""The sign-in page."""

from tests.authorization.pages.examples.every import SIGN_IN
from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render
from valetkey.authorization.site.sign_in.sign_in import SignInPage
from valetkey.kernel.replace import replace


def _read(page: SignInPage) -> Reading:
    return Reading(render(page, brand=Brand()))


def test_page_has_the_ids_and_field_names_that_automation_uses() -> None:
    reading = _read(SIGN_IN)
    (form, _) = reading.all("form")

    user, password = reading.by_id("username"), reading.by_id("password")

    assert user.attributes["name"] == "username"
    assert password.attributes["name"] == "password"
    assert password.attributes["type"] == "password"
    assert reading.by_id("sign-in").attributes["type"] == "submit"
    assert form.attributes["action"] == "/oauth/sign-in?interaction=1"


def test_fields_have_autocomplete_for_password_managers() -> None:
    reading = _read(SIGN_IN)

    assert reading.by_id("username").attributes["autocomplete"] == "username"
    assert reading.by_id("password").attributes["autocomplete"] == "current-password"


def test_cancel_form_has_no_password_field() -> None:
    reading = _read(SIGN_IN)
    cancel = reading.by_id("cancel")
    form = cancel.holders[-1]

    assert (cancel.attributes["name"], cancel.attributes["value"]) == ("decision", "deny")
    assert [i.attributes["name"] for i in reading.inside(form, "input")] == ["csrf"]


def test_page_without_an_app_has_no_cancel_form() -> None:
    reading = _read(replace(SIGN_IN, app=None))

    assert len(list(reading.all("form"))) == 1


def test_page_keeps_the_username_and_focuses_the_password() -> None:
    reading = _read(replace(SIGN_IN, username="ada", failed=True))

    assert reading.by_id("username").attributes["value"] == "ada"
    assert "autofocus" in reading.by_id("password").attributes
    assert "value" not in reading.by_id("password").attributes
    assert reading.by_id("message").attributes["role"] == "alert"
    assert reading.by_id("password").attributes["aria-describedby"] == "message"
    assert reading.by_id("password").attributes["aria-invalid"] == "true"


def test_page_shows_no_error_at_first() -> None:
    reading = _read(SIGN_IN)

    assert not [e for e in reading.elements if e.attributes.get("id") == "message"]
    assert "autofocus" in reading.by_id("username").attributes


def test_page_says_how_long_to_wait_in_the_largest_fitting_unit() -> None:
    messages = {
        wait: _read(replace(SIGN_IN, wait=wait)).by_id("message").text
        for wait in (1, 30, 91, 240, 3_600)
    }

    assert messages[1].endswith("in 1 second.")
    assert messages[30].endswith("in 30 seconds.")
    assert messages[91].endswith("in 2 minutes.")
    assert messages[240].endswith("in 4 minutes.")
    assert messages[3_600].endswith("in 1 hour.")


def test_page_shows_the_app_its_host_and_its_verification() -> None:
    text = _read(SIGN_IN).the("main").text

    assert "to continue to Notes Printer" in text
    assert "app.example" in text
    assert "Verified by Valetkey" in text
