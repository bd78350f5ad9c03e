"""A page read as a browser's parser reads it: its elements in order, and what holds what."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from tests.support.english import VOID


@dataclass(slots=True, eq=False)
class Element:
    """One element; `holders` are those around it, the outermost first."""

    name: str
    attributes: dict[str, str]
    holders: tuple["Element", ...]
    texts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """All text inside it, with single spaces."""
        return " ".join("".join(self.texts).split())


class Reading(HTMLParser):
    """The elements of one page. Raises AssertionError where tags do not match."""

    def __init__(self, page: bytes) -> None:
        """Read all of `page`."""
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page.decode())
        self.close()
        assert not self._open, f"never closed: {self._open[-1].name}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in <{tag}>"
        element = Element(tag, {n: v or "" for n, v in attrs}, tuple(self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be of that name."""
        if tag not in VOID:
            assert self._open.pop().name == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        """Give text to all elements around it."""
        for element in self._open:
            element.texts.append(data)

    def all(self, *names: str) -> Iterator[Element]:
        """The elements of these names, in order."""
        return (element for element in self.elements if element.name in names)

    def links(self) -> list[str]:
        """Return the addresses of the links, in order, without the link that skips navigation."""
        return [a.attributes["href"] for a in self.all("a") if a.attributes["href"] != "#content"]

    def the(self, name: str) -> Element:
        """The only element of this name."""
        (element,) = self.all(name)
        return element

    def by_id(self, id: str) -> Element:
        """The only element with this id."""
        (element,) = (e for e in self.elements if e.attributes.get("id") == id)
        return element

    def inside(self, holder: Element, *names: str) -> Iterator[Element]:
        """The elements of these names that `holder` holds."""
        return (e for e in self.all(*names) if any(h is holder for h in e.holders))
