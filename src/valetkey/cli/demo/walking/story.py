"""Chapters of the walk: sentences, exchanges, and whether each response was right."""

import textwrap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from valetkey.cli import say
from valetkey.cli.demo.walking import showing
from valetkey.cli.demo.wire import ShownExchange, Unanswered

_WIDTH = 92


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A response that differs from the expected one."""

    chapter: int
    exchange: int
    what: str
    expected: str
    received: str

    def __str__(self) -> str:
        """Return the mismatch in one sentence."""
        return f"{self.what}: expected {self.expected}, received {self.received}"


@dataclass(slots=True)
class Chapter:
    """One chapter and its results so far."""

    number: int
    title: str
    about: str
    rows: str
    exchanges: list[ShownExchange] = field(default_factory=list[ShownExchange])
    print_verified: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, object]:
        """Return the chapter as JSON, with secrets as short as on the screen."""
        return {
            "number": self.number,
            "title": self.title,
            "rows": self.rows.split(),
            "exchanges": [_exchange(each) for each in self.exchanges],
            "checks": self.print_verified,
        }


class UnexpectedResponse(Exception):
    """Ends a chapter, because its next steps depend on this response."""


@dataclass(slots=True)
class Transcript:
    """Print the chapters as they run, unless `quiet`, and record the results.

    Prints one line per chapter and its failures; with `verbose` every exchange.

    `unanswered` is called for a request without a response, and may raise to end the walk.
    """

    unanswered: Callable[[], None]
    quiet: bool = False
    verbose: bool = False
    checked: int = 0
    chapters: list[Chapter] = field(default_factory=list[Chapter])
    wrongs: list[Mismatch] = field(default_factory=list[Mismatch])

    @contextmanager
    def chapter(self, title: str, about: str, rows: str) -> Generator[None]:
        """Run one chapter; `rows` are those of the specification that it shows.

        A wrong or missing response ends the chapter and is recorded; the next chapter still runs.
        """
        chapter = Chapter(len(self.chapters) + 1, title, about, rows)
        self.chapters.append(chapter)
        wrongs = len(self.wrongs)
        self._detail("")
        self._detail(f"{say.strong(f'{chapter.number:>2}. {title}')}  {say.faint(rows)}")
        for line in textwrap.wrap(about, _WIDTH):
            self._detail(f"    {line}")
        try:
            yield
        except UnexpectedResponse:
            return
        except Unanswered as unanswered:
            self.unanswered()
            self._remember("an answer", "an answer", str(unanswered))
        finally:
            if not self.verbose:
                self._summarise(chapter, self.wrongs[wrongs:])

    def add_exchange(self, exchange: ShownExchange) -> None:
        """Print and record an exchange."""
        chapter = self.chapters[-1]
        if not (exchange.brief and chapter.exchanges and chapter.exchanges[-1].brief):
            self._detail("")
        chapter.exchanges.append(exchange)
        for line in showing.lines(exchange) if self.verbose else ():
            self._detail(line)

    def check(self, what: str, received: object, expected: object) -> None:
        """Check that both values of the last response are equal; otherwise end the chapter."""
        self.need(what, received == expected, str(expected), str(received))

    def need(self, what: str, fact: bool, expected: str, received: str) -> None:
        """Check a fact about the last response; if it is false, end the chapter."""
        self.checked += 1
        if not fact:
            self._remember(what, expected, received)
            raise UnexpectedResponse(what)

    def right(self, sentence: str) -> None:
        """Print a statement that was just verified."""
        self.chapters[-1].print_verified.append(sentence)
        self._detail(f"    {say.coloured('✓', 'green')} {sentence}")

    def as_json(self) -> dict[str, object]:
        """Return the transcript as JSON."""
        return {
            "right": not self.wrongs,
            "checks": self.checked,
            "chapters": [chapter.as_json() for chapter in self.chapters],
            "wrong": [asdict(wrong) for wrong in self.wrongs],
        }

    def _remember(self, what: str, expected: str, received: str) -> None:
        chapter = self.chapters[-1]
        number = chapter.exchanges[-1].number if chapter.exchanges else 0
        wrong = Mismatch(
            chapter.number,
            number,
            what,
            showing.mask_secrets(expected),
            showing.mask_secrets(received),
        )
        self.wrongs.append(wrong)
        if self.verbose:
            self._print_mismatch(wrong)

    def _summarise(self, chapter: Chapter, wrongs: Sequence[Mismatch]) -> None:
        sign = say.coloured("✗", "red") if wrongs else say.coloured("✓", "green")
        count = len(chapter.exchanges)
        exchanges = say.faint(f"{count} exchange{'' if count == 1 else 's'}")
        self._print(f"{sign} {chapter.number:>2}. {chapter.title}  {exchanges}")
        for wrong in wrongs:
            self._print_mismatch(wrong)

    def _print_mismatch(self, wrong: Mismatch) -> None:
        self._print(f"    {say.coloured('✗', 'red')} {wrong.what}")
        self._print(f"      expected: {wrong.expected}")
        self._print(f"      received: {wrong.received}")

    def _detail(self, line: str) -> None:
        if self.verbose:
            self._print(line)

    def _print(self, line: str) -> None:
        if not self.quiet:
            say.line(line)


def _exchange(exchange: ShownExchange) -> dict[str, object]:
    return {
        "number": exchange.number,
        "method": exchange.method,
        "url": showing.address(exchange.url),
        "status": exchange.status,
        "location": showing.address(exchange.header("Location")),
        "answer": showing.document(exchange.json),
    }
