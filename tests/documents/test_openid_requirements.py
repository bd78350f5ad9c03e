"""Every requirement of the OpenID Connect profiles names the test that keeps it, and it exists."""

import re

from tests.architecture.tree import ROOT
from tests.documents.pages import kept_by, missing_tests

PAGE = "docs/reference/openid-requirements.md"


def test_every_test_named_on_the_page_exists() -> None:
    assert kept_by((ROOT / PAGE).read_text())
    assert not missing_tests(PAGE)


def test_every_requirement_names_its_source_and_its_test() -> None:
    rows = re.findall(
        r"^\| (?!requirement )(?!--)(.+?) \| (.+?) \| (.+) \|$",
        (ROOT / PAGE).read_text(),
        re.MULTILINE,
    )
    assert rows
    assert not [text for text, source, keepers in rows if not source or not kept_by(keepers)]


def test_every_openid_provider_test_is_listed_on_the_page() -> None:
    page = (ROOT / PAGE).read_text()
    missing = [
        name
        for path in sorted((ROOT / "tests/openid").glob("test_*.py"))
        for name in re.findall(r"^def test_(\w+)\(", path.read_text(), re.MULTILINE)
        if f"[{name.replace('_', ' ')}]" not in page
    ]
    assert not missing
