"""Every text has its translation, and every translation the places of its text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from jinja2 import Environment

from docs.translations import FOLDER, messages, missing, read, source_of, updated
from tests.architecture.tree import sources
from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.reading import Reading
from tests.authorization.pages.shown import navigation_for, viewer_of
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import (
    ENGLISH,
    GERMAN,
    LANGUAGES,
    Language,
    translations,
)
from valetkey.authorization.layout.render import TREES, environment_of, render
from valetkey.kernel.text import FilledText

OTHERS = [language.tag for language in LANGUAGES if language is not ENGLISH]
ROOTS = {FOLDER.parent.parent / folder: prefix for prefix, folder in TREES.items()}
TEMPLATES = {
    prefix + file.relative_to(root).as_posix(): file
    for root, prefix in ROOTS.items()
    for file in sorted(root.rglob("*.html"))
}

_PLACE = re.compile(r"%\(\w+\)s|</?\w+[^>]*>")
_TAG = re.compile(r"<(/?)([a-z0-9]+)([^<>]*)>", re.DOTALL)
_LETTERS = re.compile(r"[A-Za-z]{2,}")
_SAID = re.compile(r"""\b(?:title|alt|placeholder|aria-label)=["']([^"']*)["']""")
# What these hold is for machines, or the same in every language.
_SILENT = {"code", "pre", "script", "style"}
# Another term, or another form of address, than the rest of the catalogue.
_AVOIDED = {
    "de": r"geheimnis|\b(?:du|dich|dir|dein\w*)\b",
    "es": r"\busted(?:es)?\b|^(?:elija|escriba|haga|inicie|introduzca)\b",
    "fr": r"secrets? de client\b|\b(?:tu|tes)\b",
}


@pytest.fixture(scope="module")
def english() -> Catalog:
    return messages()


def _pairs(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for message in catalog:
        if isinstance(message.id, str):
            if message.id:
                yield message.id, str(message.string)
        else:
            one, many = message.id
            forms = message.string
            assert isinstance(forms, tuple)
            yield one, forms[0]
            yield many, forms[-1]


@pytest.mark.parametrize("tag", OTHERS)
def test_every_text_is_translated_and_catalogs_are_up_to_date(tag: str, english: Catalog) -> None:
    catalog = updated(tag, english)

    untranslated = [message.id for message in missing(catalog)]
    assert untranslated == [], f"run `make translations`, then translate them in {tag}.po"
    assert source_of(catalog) == (FOLDER / f"{tag}.po").read_bytes(), "run `make translations`"


@pytest.mark.parametrize("language", LANGUAGES[1:], ids=OTHERS)
def test_server_and_babel_read_the_same_translations(language: Language) -> None:
    words = translations(language)
    for message in read(language.tag):
        if isinstance(message.id, str):
            assert words.gettext(message.id) == (message.string if message.id else "")
        else:
            one, many = message.id
            assert message.string == (words.ngettext(one, many, 1), words.ngettext(one, many, 2))

    assert words.gettext("no such text") == "no such text"
    assert words.ngettext("no such text", "no such texts", 2) == "no such texts"


@pytest.mark.parametrize("tag", OTHERS)
def test_translation_has_the_same_placeholders_and_tags_as_its_text(tag: str) -> None:
    for text, translation in _pairs(read(tag)):
        if not translation:
            continue
        # A singular may say its number in words.
        places, theirs = set(_PLACE.findall(text)), set(_PLACE.findall(translation))
        assert theirs - {"%(count)s"} == places - {"%(count)s"}, text
        assert text.endswith((".", "?", "!", ":")) == translation.endswith(
            (".", "?", "!", ":")
        ) or (translation.endswith(".") and len(translation) < 6), text


@pytest.mark.parametrize("tag", OTHERS)
def test_a_translation_is_at_most_twice_as_long_as_its_text(tag: str) -> None:
    assert [
        translation
        for text, translation in _pairs(read(tag))
        if len(translation) > 2 * len(text) + 20
    ] == []


@pytest.mark.parametrize("tag", OTHERS)
def test_no_sentence_is_left_in_english(tag: str) -> None:
    """What has three words or fewer may be a name, as may what stands in brackets."""
    same = {
        re.sub(r"[(%].*", "", text)
        for text, translation in _pairs(read(tag))
        if text == translation
    }

    assert {text for text in same if len(re.findall(r"[A-Za-z]{2,}", text)) > 3} == set()


@pytest.mark.parametrize("tag", OTHERS)
def test_catalog_contains_no_avoided_terms(tag: str) -> None:
    avoided = re.compile(_AVOIDED[tag], re.IGNORECASE)
    assert [
        translation for _, translation in _pairs(read(tag)) if avoided.search(translation)
    ] == []


def test_plural_forms_follow_the_rule_of_the_language() -> None:
    for language in LANGUAGES[1:]:
        words = translations(language)
        forms = [words.ngettext("%(count)s minute", "%(count)s minutes", n) for n in (0, 1, 2)]
        assert forms[1] != forms[2]
        # None are one in French.
        assert forms[0] == (forms[1] if language.tag == "fr" else forms[2])


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.tag)
def test_every_page_can_be_shown_in_every_language(language: Language) -> None:
    for name, page in EXAMPLES.items():
        shown = render(
            page, brand=Brand(), viewer=viewer_of(page, language), navigation=navigation_for(page)
        )
        assert Reading(shown).the("html").attributes["lang"] == language.tag, name


def test_texts_declared_in_code_are_in_the_catalogue(
    english: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences that code declares are translated where they are shown: each must be known."""
    texts: set[str] = set()
    words = translations(GERMAN)
    gettext = words.gettext

    def listening(message: str) -> str:
        texts.add(message)
        return gettext(message)

    monkeypatch.setattr(words, "gettext", listening)
    environment_of.cache_clear()
    for page in EXAMPLES.values():
        render(page, brand=Brand(), viewer=viewer_of(page, GERMAN), navigation=navigation_for(page))
    environment_of.cache_clear()
    catalogue_texts = {text for text, _ in _pairs(english)} | {str(m.id) for m in english}

    assert texts
    assert texts & _declared() - catalogue_texts == set()


def _declared() -> set[str]:
    """Every text of the pages' code; what else an example says comes from people.

    Refusals that programs get stay English where a developer reads them again.
    """
    return {
        node.value
        for root in ROOTS
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    }


def _bare(source: str, environment: Environment) -> Iterator[str]:
    text, translated, held = "", False, ""
    for _, kind, value in environment.lex(source):
        if kind == "name" and value in {"trans", "endtrans"}:
            translated = value == "trans"
        elif kind == "data" and not translated:
            text += value
        elif kind in {"variable_begin", "block_begin"}:
            text += "\x00"
    yield from (match for match in _SAID.findall(text) if _LETTERS.search(match))
    position = 0
    silent: list[str] = []
    for match in _TAG.finditer(text):
        held = text[position : match.start()]
        if not silent and _LETTERS.search(held):
            yield held.strip()
        if match[2] in _SILENT:
            if match[1]:
                silent.pop()
            else:
                silent.append(match[2])
        position = match.end()
    if _LETTERS.search(text[position:]):
        yield text[position:].strip()


# Names of specifications, which are called so everywhere.
NAMES = re.compile(r"RFC \d+|section|OpenID|JSON|PKCE|<!DOCTYPE html>|aria-[a-z]+=|\"true\"")
# What is no text: a block that names a class, a macro that writes attributes.
NO_TEXT = re.compile(r"(?<=\0)(?:wide-page|narrow|-fault|-hint|[a-z-]*=?\"true\")(?=\0|\")")


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_contain_no_untranslatable_text(template: str) -> None:
    source = TEMPLATES[template].read_text(encoding="utf-8")
    environment = environment_of(ENGLISH)

    bare_texts = [
        text
        for text in _bare(source, environment)
        if _LETTERS.search(NAMES.sub("", NO_TEXT.sub("", text)))
    ]

    assert bare_texts == []


def test_every_conflict_is_translated_where_a_page_shows_it(english: Catalog) -> None:
    # SCIM and the API of records answer programs; `owner.exists` is met on the command line alone.
    programs = ("authorization/scim/", "authorization/actions/records.py")
    english_only = [
        f"{source.inside}:{call.lineno}"
        for source in sources("src/valetkey/authorization/")
        if not source.inside.startswith(programs)
        for call in ast.walk(source.tree)
        if isinstance(call, ast.Call) and "owner.exists" not in ast.unparse(call)
        for text in _conflict_text(call)
        if isinstance(text, ast.JoinedStr)
        or (isinstance(text, ast.Constant) and str(text.value) not in english)
    ]

    assert english_only == []


def _conflict_text(call: ast.Call) -> list[ast.expr]:
    if ast.unparse(call.func) == "_conflict":
        return call.args[:1]
    return call.args[1:2] if call.args and ast.unparse(call.args[0]) == "ErrorCode.CONFLICT" else []


def test_a_refusal_with_values_is_shown_in_the_language_of_the_page() -> None:
    text = FilledText("there are %(most)s webhooks already", most=20)
    template = environment_of(GERMAN).from_string("{{ text|sentence }}")

    assert template.render(text=text) == "Es gibt bereits 20 Webhooks."


def test_package_contains_the_catalogs() -> None:
    assert {file.name for file in Path(FOLDER).iterdir()} == {f"{tag}.po" for tag in OTHERS}
