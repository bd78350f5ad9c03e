"""Syntax highlighting: the text stays the same, and is escaped as before."""

import pytest

from valetkey.authorization.layout.render import highlighted
from valetkey.authorization.portal.rules.quickstart import STACKS


@pytest.mark.parametrize(
    ("name", "text", "kinds"),
    [
        ("app.py", "return 1  # one", {"keyword": "return", "number": "1", "comment": "# one"}),
        (
            "app.mjs",
            "const a = 'b//c'; // d",
            {"keyword": "const", "string": "'b//c'", "comment": "// d"},
        ),
        (
            "signin.sh",
            'export A="b#c" # d',
            {"keyword": "export", "string": '"b#c"', "comment": "# d"},
        ),
        ("main.go", "func f() { /* x\ny */ }", {"keyword": "func", "comment": "/* x\ny */"}),
        ("a.xml", '<!-- x --><a b="c"/>', {"comment": "<!-- x -->", "string": '"c"'}),
        ("curl", "export", {}),
    ],
)
def test_syntax_is_highlighted_by_file_type(name: str, text: str, kinds: dict[str, str]) -> None:
    assert {kind: part for kind, part in highlighted(text, name) if kind} == kinds


def test_no_text_is_lost_or_changed() -> None:
    files = [(name, text) for stack in STACKS.values() for name, text in stack.files.items()]
    assert len(files) > 8
    for name, text in files:
        pieces = list(highlighted(text, name))
        assert "".join(part for _, part in pieces) == text
        assert "" in {kind for kind, _ in pieces}
