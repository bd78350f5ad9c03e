"""Sentences that are declared to be translated."""

from valetkey.kernel.text import FilledText, translatable


def test_a_sentence_stays_as_it_is_until_it_is_shown() -> None:
    assert translatable("100% of %(name)s") == "100% of %(name)s"


def test_a_filled_sentence_prints_its_values_and_keeps_its_template() -> None:
    text = FilledText(translatable("at most %(most)s groups"), most=20)
    assert (text, text.template, text.values) == (
        "at most 20 groups",
        "at most %(most)s groups",
        {"most": 20},
    )
