"""Codes of attacks in the names of tests, and the page that says what they stand for."""

import re

from tests.architecture.tree import ROOT

_PAGE = ROOT / "tests/attacks/README.md"
# As in test_lg_13_... and in test_xs_01_05_..., which tries two cases.
_NAME = re.compile(r"def test((?:_[a-z]{2}(?:_\d\d(?!\d))+)+)")


def _codes(text: str) -> set[str]:
    area, codes = "", set[str]()
    for part in text.strip("_").upper().split("_"):
        if part.isdigit():
            codes.add(f"{area}-{part}")
        else:
            area = part
    return codes


def test_codes_in_names_of_tests_are_explained_and_no_others() -> None:
    explained = re.findall(r"^\|[^|]*\| ([A-Z]{2}-\d\d) \| \S", _PAGE.read_text(), re.MULTILINE)
    used = {
        code
        for path in (ROOT / "tests").rglob("test_*.py")
        for match in _NAME.finditer(path.read_text())
        for code in _codes(match[1])
    }
    assert sorted(used) == sorted(explained)
