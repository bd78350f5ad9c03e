"""Count the words of the documentation: `python -m docs.length`.

Guides are counted without code blocks, which are not read in a row; totals with them. Comments and
anchors, which a reader does not see, are never counted.
"""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
_HIDDEN = re.compile(r"<!--.*?-->|<span[^>]*></span>", re.DOTALL)
_UNREAD = re.compile(r"^```.*?^```$|\]\([^)]*\)", re.MULTILINE | re.DOTALL)


def words(text: str) -> int:
    """Return the words of a page without code blocks, comments and targets of links."""
    return len(_UNREAD.sub(" ", _HIDDEN.sub("", text)).split())


def pages(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield the path below docs/ and the text of each page of these folders."""
    for folder in folders:
        for path in sorted((FOLDER / folder).rglob("*.md")):
            yield path.relative_to(FOLDER).as_posix(), path.read_text(encoding="utf-8")


def total(*folders: str) -> int:
    """Return all words in these folders, code included."""
    return sum(len(_HIDDEN.sub("", text).split()) for _, text in pages(*folders))


if __name__ == "__main__":
    for words_of, page in sorted((words(text), page) for page, text in pages("how-to")):
        print(f"{words_of:6} {page}")  # noqa: T201
    for group in (("tutorials", "how-to"), ("reference",), ("tutorials", "how-to", "reference")):
        print(f"{total(*group):6} {', '.join(group)}")  # noqa: T201
