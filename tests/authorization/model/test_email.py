"""The kinds of email: each has a name that people read."""

import pytest

from valetkey.authorization.features import FEATURES
from valetkey.authorization.layout.language import LANGUAGES, Language, translations
from valetkey.authorization.model.email import EmailKind, every_kind, label_of


def test_every_kind_has_a_unique_label() -> None:
    assert FEATURES
    labels = {kind.label for kind in every_kind()}
    assert len(labels) == len(every_kind()) > len(EmailKind)
    assert all(label[0].isupper() and "_" not in label for label in labels)
    assert EmailKind.VERIFY_EMAIL.value == "verify_email"


def test_the_name_of_a_stored_kind_is_found_and_an_unknown_kind_has_none() -> None:
    assert label_of("new_device") == "Sign-in from a new browser"
    assert label_of("of_another_version") == ""


@pytest.mark.parametrize("language", LANGUAGES[1:], ids=lambda language: language.tag)
def test_every_name_is_translated(language: Language) -> None:
    translate = translations(language).gettext
    assert not {kind.label for kind in every_kind() if translate(kind.label) == kind.label}
