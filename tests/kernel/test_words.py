"""Sentences that are declared to be translated."""

from valetkey.kernel.text import FilledText, translatable


def test_translatable_text_is_returned_unchanged() -> None:
    assert translatable("100% of %(name)s") == "100% of %(name)s"


def test_filled_text_shows_its_values_and_keeps_its_template() -> None:
    text = FilledText(translatable("at most %(most)s groups"), most=20)
    assert (text, text.template, text.values) == (
        "at most 20 groups",
        "at most %(most)s groups",
        {"most": 20},
    )
