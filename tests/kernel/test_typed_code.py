"""Codes in the spellings that keyboards, clipboards and scanners produce."""

import pytest

from valetkey.kernel.text import read_code


@pytest.mark.parametrize(
    "typed",
    [
        "123456",
        "123 456",
        "123-456",
        " 123\t456\n",
        "１２３４５６",
        "123\u00a0456",
        "123\u3000456",
        "123\u202f456",
        "123\u2011456",
        "123\u2212456",
        "123\u2014456",
        "123\uff0d456",
        "１２３ー４５６",
        "\u200b123\u200d456\ufeff",
        "\u2066123456\u2069",
        "١٢٣٤٥٦",
        "१२३४५६",
        "123.456",
        "𝟏𝟐𝟑𝟒𝟓𝟔",
        "①②③④⑤⑥",
    ],
)
def test_digits_are_read_in_any_width_script_and_grouping(typed: str) -> None:
    assert read_code(typed) == "123456"


@pytest.mark.parametrize(
    "typed", ["bcdf-ghjk", "ＢＣＤＦ－ＧＨＪＫ", "ｂｃｄｆｇｈｊｋ", "b c d f_g h j k"]
)
def test_letters_are_read_in_upper_case(typed: str) -> None:
    assert read_code(typed) == "BCDFGHJK"


@pytest.mark.parametrize(
    "typed", ["", "-", "ı23456", "ж", "12345\u0301", "1" * 101, "ﷺ" * 100, "1+2", "123456€", "ß"]
)
def test_code_with_other_characters_is_refused(typed: str) -> None:
    assert read_code(typed) == ""
