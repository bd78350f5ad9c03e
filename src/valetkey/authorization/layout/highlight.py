"""Syntax highlighting of code blocks: comments, strings, keywords and numbers.

Rendered on the server, so that pages need no script for it. It recognises what most languages have
in common, which is enough for the short files that pages show.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

_SLASHES = r"//[^\n]*|/\*.*?\*/"
_HASH = r"(?<![^\s])#[^\n]*"
_MARKUP = r"<!--.*?-->"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_LONG = r'"""(?:[^\\]|\\.)*?"""'
_BACKTICKS = r"`(?:[^`\\]|\\.)*`"

_C_LIKE = (
    "abstract as async await break case catch class const continue default defer do else enum"
    " export extends final finally for from func function go guard if implements import in"
    " interface internal is let namespace new nil null override package private protected public"
    " readonly record return sealed static struct super switch this throw throws true false try"
    " type typeof using use var void while yield bool int string"
)
_PYTHON = (
    "and as assert async await break class continue def del elif else except finally for from"
    " global if import in is lambda None nonlocal not or pass raise return True False try while"
    " with yield"
)
_RUBY = (
    "and begin class def do else elsif end ensure false if in module next nil not or require"
    " rescue return self super then true unless until when while yield"
)
_SHELL = "case do done elif else esac export fi for function if in local then while"

_SYNTAXES = {
    "c": (_SLASHES, f"{_LONG}|{_QUOTED}|{_BACKTICKS}", _C_LIKE),
    "php": (f"{_SLASHES}|{_HASH}", _QUOTED, _C_LIKE),
    "python": (_HASH, f"{_LONG}|{_QUOTED}", _PYTHON),
    "ruby": (_HASH, _QUOTED, _RUBY),
    "shell": (_HASH, f"{_QUOTED}|{_BACKTICKS}", _SHELL),
    "data": (_HASH, _QUOTED, "true false null yes no on off"),
    "markup": (_MARKUP, _QUOTED, ""),
}
_ENDINGS = {
    **dict.fromkeys(("js", "mjs", "ts", "tsx", "jsx", "go", "java", "kt", "cs", "swift"), "c"),
    **dict.fromkeys(("json", "toml", "yml", "yaml", "ini", "conf", "properties", "env"), "data"),
    **dict.fromkeys(("html", "xml", "csproj"), "markup"),
    **dict.fromkeys(("sh", "bash"), "shell"),
    "php": "php",
    "py": "python",
    "rb": "ruby",
    "ru": "ruby",
}
_LARGEST = 50_000


def highlighted(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the text in pieces, each with its kind: "comment", "string", "keyword", "number" or "".

    `name` is the name of the file, or its ending. Joined, the pieces are the text.
    """
    syntax = _ENDINGS.get(name.rpartition(".")[2].lower(), "")
    if not syntax or len(text) > _LARGEST:
        yield "", text
        return
    end = 0
    for match in _pattern(syntax).finditer(text):
        if match.start() > end:
            yield "", text[end : match.start()]
        yield match.lastgroup or "", match[0]
        end = match.end()
    if end < len(text):
        yield "", text[end:]


@lru_cache(maxsize=len(_SYNTAXES))
def _pattern(syntax: str) -> re.Pattern[str]:
    comment, string, keywords = _SYNTAXES[syntax]
    words = "|".join(keywords.split()) or "(?!)"
    return re.compile(
        rf"(?P<comment>{comment})|(?P<string>{string})"
        rf"|(?<![\w.$-])(?P<keyword>{words})(?![\w-])|(?<![\w.-])(?P<number>\d+(?:\.\d+)?)(?![\w.-])",
        re.DOTALL,
    )
