"""Email addresses with international domains have one form."""

from unicodedata import normalize

import pytest

from valetkey.authorization.model.user import ascii_email, fold, is_mailable, shown_email


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
        ("Ada@BÜCHER.Example", "Ada@xn--bcher-kva.example"),
        (normalize("NFD", "ada@bücher.example"), "ada@xn--bcher-kva.example"),
        ("ada@bücher。example", "ada@xn--bcher-kva.example"),
        ("ada@straße.example", "ada@xn--strae-oqa.example"),
        ("ada@例え.テスト", "ada@xn--r8jz45g.xn--zckzah"),
        ("ada@Example.com", "ada@Example.com"),
        ("josé@example.com", "josé@example.com"),
        ("ada@☃.example", "ada@☃.example"),
        ("ada", "ada"),
    ],
)
def test_domain_is_stored_in_ascii(typed: str, stored: str) -> None:
    assert ascii_email(typed) == stored
    assert ascii_email(stored) == stored
    assert fold(typed) == fold(stored)


def test_idn_domains_with_the_same_case_folding_are_different() -> None:
    assert fold("ada@straße.example") != fold("ada@strasse.example")
    assert fold("ADA@Example.com") == fold("ada@example.com")
    assert fold("STRASSE") == fold("straße")


def test_punycode_domain_is_shown_in_unicode() -> None:
    assert shown_email("ada@xn--bcher-kva.example") == "ada@bücher.example"
    assert shown_email("ada@XN--BCHER-KVA.example") == "ada@bücher.example"
    for other in ("ada@example.com", "ada@xn--a.example", "ada", "ada@bücher.example"):
        assert shown_email(other) == other


@pytest.mark.parametrize(
    "typed",
    ["a@Ü.xn--strae-oqa.de", "a@xn--strae-oqa.ＤＥ", "a@xn--strae-oqa.de\N{ZERO WIDTH SPACE}"],
)
def test_letters_beside_an_ascii_label_are_mapped_before_they_are_shown(typed: str) -> None:
    assert shown_email(typed) == shown_email(ascii_email(typed))


def test_only_domains_of_idna_2008_are_mailable() -> None:
    assert is_mailable("ada@bücher.example")
    assert is_mailable("ada@xn--bcher-kva.example")
    for wrong in ("ada@☃.example", "ada@-ü.example", "ada@ü_x.example", "ada@" + "ü" * 300):
        assert not is_mailable(wrong)


def test_long_domain_is_not_converted() -> None:
    long = "ada@" + "ü." * 100_000 + "example"
    assert ascii_email(long) == long
    assert shown_email("ada@" + "xn--a." * 100_000).startswith("ada@xn--a.")
