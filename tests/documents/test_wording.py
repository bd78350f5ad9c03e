"""Documentation, command help, texts, docstrings and comments use plain English.

Code blocks, inline code and quoted values are not searched, except in the commands' help.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.architecture.tree import ROOT, Source, sources
from tests.documents.pages import pages, text

_HELP = "docs/reference/commands/"
# The English texts are the same in each catalogue.
_CATALOGUE = "src/valetkey/authorization/layout/translations/de.po"

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\"[\w.-]+\"", re.MULTILINE | re.DOTALL)
_UNSEEN = re.compile(r"<!--.*?-->|\]\([^)]*\)|<[^>]*>", re.DOTALL)
"""Words for the search, addresses of links, and tags."""

_PLACEHOLDER = re.compile(r"%\(\w+\)\w")
_GLOSSARY = "docs/explanation/words.md"
_MESSAGE = re.compile(r'^msgid(?:_plural)? ((?:".*"\n)+)', re.MULTILINE)

_BANNED = (
    r"somebody|nobody|anybody|everybody|whoever|whomever|whatever",
    r"anew|lately|lest|thereof|hither|in vain|sooner or later|of old|of long ago",
    r"mend(?:s|ed|ing)?|deeds?|wish(?:es|ed)?|heed(?:s|ed)?|beware|tell apart|told apart",
    r"couriers?|doorways?|farewells?|mailroom|full house|in the hands of|(?:in|by) letters?",
    r"switch(?:es|ed|ing)? (?:it |them )?(?:on|off)|lets? (?:him|her|one|them) in",
    r"counts? no more|no more(?=[,.;:])|is over|gives? way|keeps? (?:his|her|their) word",
)
# Wording of translated or chatty texts, on pages and in documentation.
_BANNED_IN_TEXTS = (
    *_BANNED,
    r"of (?:yours|hers|theirs)|in trouble|makes? room|(?:is|are|was|be) told (?:to|that)",
    r"gets? no more|words of the consent|counts? everywhere|from the next one on",
    r"and all others alike|lives? in|goes? on the next time|yes, it is|(?:are|is) possible",
)
# In the code also these, which a few older pages of the documentation have in another sense.
_BANNED_IN_CODE = (
    *_BANNED,
    r"shall|upon|ought|thereby|at hand|bad mood|counts once|is worth|(?:to|may|cannot) be had",
    r"tells? of|told (?:of|apart|from)|hears? of|in its turn|for its part|stands on",
)
_OPENINGS = r"Who (?!can|may)|Those (?:that|who) |Of two |It is you "


def _banned(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        rf"\b(?:{'|'.join(words)})(?!\w)|(?:^|(?<=[.:|]\s))(?-i:{_OPENINGS})".replace(" ", r"\s+"),
        re.IGNORECASE | re.MULTILINE,
    )


_WORD = _banned(_BANNED_IN_TEXTS)
_WORD_IN_CODE = _banned(_BANNED_IN_CODE)


def test_no_banned_wording() -> None:
    faults = [*_in_pages(), *_in_catalogue()]
    assert not faults, "\n".join(faults)


def test_each_concept_has_one_term_in_texts_and_pages() -> None:
    """The glossary's table says which; other words for it stand in no text and on no page."""
    word = _others()
    faults = [*_in_catalogue(word)]
    for page in pages():
        # The changelog and decisions say what was called something else.
        if page not in {_GLOSSARY, "CHANGELOG.md"} and not page.startswith("docs/decisions/"):
            prose = _UNSEEN.sub(_blank, _CODE.sub(_blank, text(page)))
            faults += [f"{page}: {match[0]!r}" for match in word.finditer(prose)]
    assert not faults, "\n".join(faults)


def _others() -> re.Pattern[str]:
    """Return the last column of the table."""
    rows = text(_GLOSSARY).partition("## One term for each thing")[2].split("\n|")[3:]
    words = [word.strip() for row in rows for word in row.split("|")[2].split(",")]
    assert len(words) > len(rows) > 1
    return re.compile(rf"\b(?:{'|'.join(words)})s?\b(?!:)", re.IGNORECASE)


def test_no_banned_wording_in_code() -> None:
    faults = [f"{source.path}:{fault}" for source in sources() for fault in _in_code(source)]
    assert not faults, "\n".join(faults)


def _in_code(source: Source) -> Iterator[str]:
    """Find banned wording in docstrings, sentences and comments; a single word is a value."""
    sentences = [
        (node.lineno, node.value)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    comments = [
        (token.start[0], token.string.lstrip("#: "))
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type == tokenize.COMMENT
    ]
    for first, passage in sentences + comments:
        prose = _CODE.sub(_blank, passage)
        for word in _WORD_IN_CODE.finditer(prose):
            yield f"{first + prose.count(chr(10), 0, word.start())}: {word[0]!r}"


def _in_pages() -> Iterator[str]:
    for page in pages():
        content = text(page)
        prose = content if page.startswith(_HELP) else _CODE.sub(_blank, content)
        for word in _WORD.finditer(prose):
            line = prose.count("\n", 0, word.start()) + 1
            yield f"{page}:{line}: {word[0]!r}"


def _in_catalogue(word: re.Pattern[str] = _WORD) -> Iterator[str]:
    catalogue = (ROOT / _CATALOGUE).read_text(encoding="utf-8")
    for message in _MESSAGE.finditer(catalogue):
        line = catalogue.count("\n", 0, message.start()) + 1
        english = "".join(re.findall(r'"(.*)"', message[1]))
        for match in word.finditer(_PLACEHOLDER.sub("", _CODE.sub(_blank, english))):
            yield f"{_CATALOGUE}:{line}: {match[0]!r}"


def _blank(code: re.Match[str]) -> str:
    """Replace code; its line breaks stay, so that line numbers are right."""
    return "\n" * code[0].count("\n") or "code"


# An extra of what is installed is found without a release; the package itself is not.
_UNRELEASED = re.compile(r"pip install [^`\n]*(?<![\w./'-])valetkey(?![\w\[-])")


def test_no_page_installs_valetkey_from_a_registry() -> None:
    texts = {str(page): text(page) for page in pages()}
    texts |= {
        file.name: file.read_text(encoding="utf-8")
        for file in (ROOT / "src/valetkey/authorization/apis/frameworks").iterdir()
    }

    assert {
        name: _UNRELEASED.findall(it) for name, it in texts.items() if _UNRELEASED.search(it)
    } == {}
