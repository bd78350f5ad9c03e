"""The words of a language as a theme has them: its own first, then ours, then English."""

from functools import cache
from gettext import GNUTranslations, NullTranslations

from valetkey.authorization.pages.looks.language import Language, translations
from valetkey.authorization.pages.looks.themes.theme import Theme


@cache
def words(language: Language, theme: Theme | None) -> NullTranslations:
    """What every template of this language says."""
    ours = translations(language)
    file = None if theme is None else theme.compiled / f"{language.tag}.mo"
    if file is None or not file.is_file():
        return ours
    with file.open("rb") as source:
        theirs = GNUTranslations(source)
    theirs.add_fallback(ours)
    return theirs
