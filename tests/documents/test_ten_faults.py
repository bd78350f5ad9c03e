"""The messages that the page of ten faults quotes exist: events, settings, alerts, and texts."""

import ast
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache

from tests.architecture.tree import ROOT
from valetkey.config.catalogue import catalogue

PAGE = ROOT / "docs/reference/ten-faults.md"
EVENTS = ROOT / "docs/reference/events.md"
RULES = ROOT / "deploy/prometheus/alerts.yml"
_ANY = "*"
_LONGEST = 4  # words of one value
_NAME = re.compile(r"[a-z_]+\.[a-z_]+")
# Of SQLite, psycopg, libpq and Linux; commands of other programs; fields of the log.
_OTHERS = {
    "SQLite: database or disk is full",
    "connection timeout expired",
    "PostgreSQL: connection timeout expired",
    "Too many open files",
    "prlimit --nofile",
    '"signal":"SIGKILL"',
    "synchronous_standby_names",
    "chronyc tracking",
    "alerts.yml",
}
_WORD = re.compile(r"[a-z_]+|[A-Z][a-z]+(?:-[A-Z][a-z]+)*|/[a-z/]+|valetkey [a-z ]+")
"""Names of fields, headers, paths and commands, which other tests check."""


def _quoted() -> list[str]:
    text = PAGE.read_text()
    return [quotation.replace("\n", " ") for quotation in re.findall(r"`([^`]+)`", text)]


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every text but docstrings, with a star for each value that is put into it."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%\(\w+\)s", _ANY, node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (
                str(part.value) if isinstance(part, ast.Constant) else _ANY for part in node.values
            )
            yield "".join(parts)


@cache
def _sources() -> tuple[tuple[str, ...], ...]:
    texts: set[tuple[str, ...]] = set()
    for file in (ROOT / "src/valetkey").rglob("*.py"):
        texts |= {_words(text) for text in _texts(ast.parse(file.read_text()))}
    return tuple(texts - {()})


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for piece in text.split() if (word := piece.strip(".,;:?")))


def _begins(words: Sequence[str], text: Sequence[str], values: int) -> bool:
    """Whether `text`, with at most so many words in place of its stars, begins with `words`."""
    if values < 0:
        return False
    if not words:
        return True
    if not text:
        return False
    if text[0] == _ANY:
        return any(_begins(words[n:], text[1:], values - n) for n in range(1, _LONGEST + 1))
    left = values - (_ANY in text[0])
    return fnmatchcase(words[0], text[0]) and _begins(words[1:], text[1:], left)


def is_in_source(phrase: str) -> bool:
    """Whether a text of the source contains these words in a row; at least half are its own."""
    words = _words(phrase)
    return any(
        _begins(words, text[n:], len(words) // 2) for text in _sources() for n in range(len(text))
    )


def test_quoted_texts_are_in_the_source() -> None:
    texts = [
        quotation
        for quotation in _quoted()
        if quotation not in _OTHERS and not _WORD.fullmatch(quotation)
    ]
    texts = [text for text in texts if not _NAME.fullmatch(text)]
    parts = [part for text in texts for part in re.split("…|: ", text) if _words(part)]
    assert len(parts) > 10
    assert [part for part in parts if not is_in_source(part)] == []
    assert not is_in_source("it may have no open files left")
    assert not is_in_source("17.0 MiB of 24.0 MiB are gone at")


def test_named_events_and_settings_exist() -> None:
    names = {quotation for quotation in _quoted() if _NAME.fullmatch(quotation)} - _OTHERS
    assert len(names) > 10
    existing_names = {
        word for text in _sources() if len(text) == 1 for word in text
    } | catalogue().keys()
    existing_names |= set(re.findall(r"^\| `([^`]+)`", EVENTS.read_text(), re.MULTILINE))
    assert sorted(names - existing_names) == []


def test_named_alerts_exist_and_link_to_their_pages() -> None:
    rules = RULES.read_text()
    named = re.findall(
        r"\[(Valetkey\w+)\]\((../how-to/operate/alerts/[a-z-]+\.md)\)", PAGE.read_text()
    )
    assert len(named) > 10
    for alert, page in named:
        assert f"- alert: {alert}\n" in rules
        assert (PAGE.parent / page).read_text().startswith(f"# {alert}\n")
