"""The problem page."""

import pytest

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render, sentence


def _read(name: str) -> Reading:
    return Reading(render(EXAMPLES[f"problem_{name}"], brand=Brand()))


def test_page_shows_the_error_description_code_and_reference() -> None:
    text = _read("developer").the("main").text

    assert "The redirect_uri is not registered for this client." in text
    assert "Error invalid_request Reference VK-7F3K-9QXM-2RTD" in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("developer", "send this page to the developers of the app"),
        ("operator", "send this page to the operators of Valetkey"),
    ],
)
def test_error_page_says_who_can_fix_it(name: str, said: str) -> None:
    assert said in _read(name).the("main").text


def test_page_links_to_the_explanation_and_for_developers_to_the_record() -> None:
    (own,) = _read("visitor").links()
    assert own.startswith("/errors/")
    assert _read("developer").links() == [
        "/errors/invalid_request",
        "/developer/failures/VK-7F3K-9QXM-2RTD",
    ]


def test_page_shows_no_reference_where_there_is_no_record() -> None:
    assert "Reference" not in _read("visitor").the("main").text


def test_not_found_page_shows_no_error_code_and_links_to_the_home_page() -> None:
    page = _read("not_found")

    assert page.the("h1").text == "Page not found"
    assert "not_found" not in page.the("main").text
    assert page.links() == ["/"]


def test_wrong_host_page_links_to_the_configured_address() -> None:
    page = _read("wrong_host")

    assert "You opened login.internal:8000" in page.the("main").text
    assert page.links() == ["https://auth.example/"]
    assert "Reference VK-7F3K-9QXM-2RTD" in page.the("main").text


def test_description_starts_uppercase_except_with_a_parameter_name() -> None:
    assert sentence("this page does not exist") == "This page does not exist."
    assert sentence("redirect_uri is not registered") == "redirect_uri is not registered."
    assert [sentence("Gone."), sentence("")] == ["Gone.", ""]
