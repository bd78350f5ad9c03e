"""A promise of the threat model is kept by a test that exists."""

import re

from tests.architecture.tree import ROOT
from tests.documents.pages import kept_by, missing_tests

PAGE = "docs/explanation/threat-model.md"


def test_every_test_named_in_the_threat_model_exists() -> None:
    assert kept_by((ROOT / PAGE).read_text())
    assert not missing_tests(PAGE)


def test_every_promise_names_its_test() -> None:
    rows = re.findall(r"^\| (?!promise )(.+?) \| (.+) \|$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert rows
    assert not [promise for promise, keepers in rows if not kept_by(keepers)]
