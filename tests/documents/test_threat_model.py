"""A promise of the threat model is kept by a test that exists."""

import re

from tests.architecture.tree import ROOT

PAGE = "docs/explanation/threat-model.md"
KEPT_BY = re.compile(r"\[([^\]]+)\]\(\.\./\.\./(tests/[^)]+)\)")


def test_every_test_named_in_the_threat_model_exists() -> None:
    named = KEPT_BY.findall((ROOT / PAGE).read_text())
    assert named
    assert not [
        f"{path}: {sentence}"
        for sentence, path in named
        if f"def test_{sentence.replace(' ', '_')}(" not in (ROOT / path).read_text()
    ]


def test_every_promise_names_its_test() -> None:
    rows = re.findall(r"^\| (?!promise )(.+?) \| (.+) \|$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert rows
    assert not [promise for promise, kept_by in rows if not KEPT_BY.search(kept_by)]
