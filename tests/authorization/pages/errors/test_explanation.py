"""The pages that explain codes, and their list."""

import pytest

from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.render import render
from valetkey.authorization.site.errors.refuse import error_index, explanation_of
from valetkey.kernel.refusal import ErrorCode


@pytest.mark.parametrize("code", ["", "nope", "INVALID_GRANT", "invalid_grant/", "../etc"])
def test_unknown_error_code_has_no_page(code: str) -> None:
    assert explanation_of(code) is None


def test_page_shows_code_and_status_and_links_to_the_specification() -> None:
    page = explanation_of("invalid_grant")
    assert page is not None

    reading = Reading(render(page, brand=Brand()))

    assert reading.the("h1").text == "invalid_grant"
    assert "HTTP status 400" in reading.the("main").text
    assert reading.links() == [
        "https://www.rfc-editor.org/rfc/rfc6749.html#section-5.2",
        "/errors/",
    ]


def test_example_code_keeps_its_line_breaks() -> None:
    page = explanation_of("invalid_grant")
    assert page is not None

    example = next(iter(Reading(render(page, brand=Brand())).all("pre")))

    assert "".join(example.texts) == page.text.example.code


def test_list_links_to_every_error_code() -> None:
    reading = Reading(render(error_index(), brand=Brand()))

    assert reading.links() == [f"/errors/{code}" for code in ErrorCode]
