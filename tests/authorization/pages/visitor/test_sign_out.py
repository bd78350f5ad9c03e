"""The pages of signing out, of a no, and at the root."""

from tests.authorization.pages.examples import EXAMPLES
from tests.authorization.pages.reading import Reading
from valetkey.authorization.pages.brand import Brand
from valetkey.authorization.pages.page import render


def _read(name: str) -> Reading:
    return Reading(render(EXAMPLES[name], brand=Brand()))


def test_asks_before_signing_out() -> None:
    reading = _read("sign_out")
    button = reading.by_id("sign-out")

    assert button.holders[-1].attributes["action"] == "/oauth/sign-out"
    assert "Ada Lovelace" in reading.the("main").text


def test_says_that_one_is_signed_out() -> None:
    assert _read("signed_out").the("h1").text == "You are signed out"


def test_says_that_nothing_was_shared() -> None:
    assert _read("denied").the("h1").text == "Nothing was shared"


def test_the_root_says_who_one_is_and_lets_one_sign_out() -> None:
    reading = _read("home")

    assert "Ada Lovelace" in reading.the("main").text
    assert reading.by_id("sign-out").holders[-1].attributes["action"] == "/oauth/sign-out"


def test_the_root_offers_to_sign_in_and_leads_developers_on() -> None:
    links = [link.attributes["href"] for link in _read("home_nobody").all("a")]

    assert links == ["/oauth/sign-in", "/.well-known/oauth-authorization-server", "/errors/"]
