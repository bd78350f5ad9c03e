"""Every error code is explained."""

import pytest

from valetkey.authorization.site.errors.refuse import TEXTS, ErrorText
from valetkey.kernel.refusal import ErrorCode

every_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())


def test_every_error_code_has_a_text() -> None:
    assert set(TEXTS) == set(ErrorCode)


@every_text
def test_each_text_has_causes_remedies_and_an_example(text: ErrorText) -> None:
    assert text.causes
    assert text.remedies
    assert text.example.caption
    assert text.example.code.strip() == text.example.code
    assert text.specification_url.startswith("https://")


@every_text
def test_each_reader_has_one_remedy_and_texts_are_sentences(text: ErrorText) -> None:
    readers = [remedy.reader for remedy in text.remedies]
    sentences = [text.meaning, *text.causes, *(remedy.advice for remedy in text.remedies)]

    assert len(readers) == len(set(readers))
    assert all(sentence.endswith(".") for sentence in sentences)


@every_text
def test_example_lines_have_at_most_74_characters(text: ErrorText) -> None:
    assert max(map(len, text.example.code.split("\n"))) <= 74
