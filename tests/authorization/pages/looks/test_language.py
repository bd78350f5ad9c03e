"""Which language somebody gets."""

import pytest

from valetkey.authorization.layout.language import (
    ENGLISH,
    GERMAN,
    LANGUAGES,
    accepted,
    chosen,
    listed,
)


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        (None, ()),
        ("", ()),
        ("de", ("de",)),
        ("de-AT, de;q=0.8, en;q=0.5", ("de-AT", "de", "en")),
        ("en;q=0.1 ,\tde;q=0.9", ("de", "en")),
        ("en;q=0, de;q=0.001", ("de",)),
        ("de;Q=0.5,en", ("en", "de")),
        ("fr;q=1.5, en;q=-1, de;q=0.5", ("de",)),
        ("*, de;q=0.2", ("*", "de")),
        ("de;level=1, e\u0301, toolonglanguage, en", ("en",)),
        ("de;q=0.1234, de;q=", ()),
        ("de," * 400, ()),
    ],
)
def test_accept_language_is_parsed_as_specified(header: str | None, tags: tuple[str, ...]) -> None:
    assert accepted(header) == tags


def test_at_most_thirty_two_ranges_are_read() -> None:
    assert accepted(",".join(["fr"] * 32 + ["de"])) == ("fr",) * 32


@pytest.mark.parametrize(
    ("tags", "language"),
    [
        (("de",), GERMAN),
        (("de-AT-1996",), GERMAN),
        (("DE-ch", "en"), GERMAN),
        (("nl", "en-GB", "de"), ENGLISH),
        (("nl",), None),
        (("*",), None),
        (("", "-", "--", "\x00", "d" * 900), None),
        ((), None),
    ],
)
def test_first_supported_language_is_chosen(tags: tuple[str, ...], language: object) -> None:
    assert chosen(tags) is language


def test_ui_locales_are_read_in_order() -> None:
    assert listed("fr-CA fr de") == ("fr-CA", "fr", "de")
    assert listed(None) == ()
    assert listed("de " * 500) == ()


def test_every_language_has_a_tag_of_its_own() -> None:
    assert len({language.tag for language in LANGUAGES}) == len(LANGUAGES)
    assert LANGUAGES[0] is ENGLISH
