"""The pages of signing out, and at the root."""

import pytest

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render
from valetkey.authorization.protocol.logout import NotRedirected
from valetkey.authorization.site.sign_out import SignedOutPage


def _read(name: str) -> Reading:
    return Reading(render(EXAMPLES[name], brand=Brand(), csrf="csrf-value"))


def test_page_asks_before_signing_out() -> None:
    reading = _read("sign_out")
    button = reading.by_id("sign-out")

    assert button.holders[-1].attributes["action"] == "/oauth/sign-out"
    assert "Ada Lovelace" in reading.the("main").text


def test_page_names_the_app_and_keeps_its_post_logout_redirect_uri() -> None:
    reading = _read("sign_out_app")
    assert "Notes Printer" in reading.the("h1").text
    fields = {field.attributes["name"]: field.attributes["value"] for field in reading.all("input")}
    assert fields == {
        "csrf": "csrf-value",
        "session": "se_1",
        "returns_to": "https://app.example/bye?state=1",
    }


def test_idle_session_can_be_ended_without_showing_its_user() -> None:
    reading = _read("sign_out_idle")
    assert reading.by_id("sign-out").attributes["type"] == "submit"
    assert "Ada" not in reading.the("main").text


def test_signed_out_page_notifies_apps_by_frames_and_links_back() -> None:
    page = SignedOutPage(
        "https://app.example/bye?state=1&more=2", frames=("https://app.example/out?iss=x&sid=y",)
    )
    reading = Reading(render(page, brand=Brand()))
    frame = reading.the("iframe").attributes
    assert frame["src"] == "https://app.example/out?iss=x&sid=y"
    assert "hidden" in frame
    link = reading.by_id("continue").attributes
    assert link["href"] == "https://app.example/bye?state=1&more=2"


@pytest.mark.parametrize("reason", list(NotRedirected))
def test_refused_post_logout_redirect_is_shown_with_its_reference(reason: NotRedirected) -> None:
    page = SignedOutPage("", reason.value, "VK-7F3K-9QXM-2RTD")
    reading = Reading(render(page, brand=Brand()))
    text = reading.the("main").text
    assert reading.the("h1").text == "You are signed out"
    assert "You have been signed out." in text
    assert "VK-7F3K-9QXM-2RTD" in text
    assert not list(reading.all("iframe"))


def test_page_shows_that_the_user_is_signed_out() -> None:
    assert _read("signed_out").the("h1").text == "You are signed out"


def test_home_page_shows_the_user_and_a_sign_out_button() -> None:
    reading = _read("home")

    assert "Ada Lovelace" in reading.the("main").text
    assert reading.by_id("sign-out").holders[-1].attributes["action"] == "/oauth/sign-out"


def test_home_page_links_to_the_apps_that_can_be_started() -> None:
    links = [link for link in _read("home_apps").all("a") if "/start" in link.attributes["href"]]
    assert [link.attributes["href"][-1] for link in links] == ["0", "1", "2", "3"]
    assert "Notes Printer" in links[0].text
    assert "app.example" in links[0].text


def test_home_page_links_to_sign_in_and_developer_pages() -> None:
    ways = ["/developer", "/.well-known/oauth-authorization-server", "/errors/"]
    assert _read("home_signed_out").links() == ["/oauth/sign-in", *ways]
