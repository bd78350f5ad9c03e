"""Sentences that are declared to be translated."""

from valetkey.kernel.text import translatable


def test_a_sentence_stays_as_it_is_until_it_is_shown() -> None:
    assert translatable("100% of %(name)s") == "100% of %(name)s"
