"""Graphics on pages: bar charts of consecutive days or hours, and QR codes as SVG paths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from valetkey.kernel.runtime import import_lazily

HEIGHT = 100
"""Height of the drawing; each bar is 10 wide, including its gap."""

RANGES = (7, 30, 90, 365)
"""The numbers of days that a page offers."""

_STEPS = (1, 2, 4, 6, 10)


class Chart(Struct, frozen=True):
    """A number for each day (2026-11-21) or hour (14:00) of `labels`, without gaps."""

    labels: Sequence[str]
    values: Sequence[int]

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return sum(self.values)

    @property
    def most(self) -> int:
        """The largest number, 0 for none."""
        return max(self.values, default=0)

    @property
    def top(self) -> int:
        """The end of the axis: the next round number, one of 1, 2, 4, 6 and 10 times ten to n."""
        power = 1
        while self.most > power * 10:
            power *= 10
        return next(step * power for step in _STEPS if step * power >= self.most)

    @property
    def ticks(self) -> tuple[int, ...]:
        """The numbers on the axis, largest first, all whole."""
        return (self.top, self.top // 2, 0) if self.top > 1 else (1, 0)

    @property
    def dates(self) -> tuple[str, ...]:
        """The labels on the time axis: the first, the middle one and the last."""
        if len(self.labels) < len(self.ticks):
            return tuple(self.labels)
        return self.labels[0], self.labels[(len(self.labels) - 1) // 2], self.labels[-1]

    @property
    def path(self) -> str:
        """The SVG path of the bars; a number above 0 has at least 1 of the height."""
        top = self.top
        return "".join(
            f"M{place * 10 + 1} {HEIGHT}v-{max(1, round(value * HEIGHT / top))}h8V{HEIGHT}z"
            for place, value in enumerate(self.values)
            if value
        )


class RangeChoice(Struct, frozen=True):
    """A range of days that a page offers, and its URL."""

    days: int
    url: str
    is_current: bool


def chosen_range(text: str | None, usual: int) -> int:
    """Return the range that the parameter `days` names, or `usual` if that is not offered."""
    return next((each for each in RANGES if str(each) == text), usual)


def ranges(path: str, chosen: int, most: int) -> Sequence[RangeChoice]:
    """Return the ranges up to `most` days as links to `path`."""
    return [
        RangeChoice(each, f"{path}?days={each}", each == chosen) for each in RANGES if each <= most
    ]


if TYPE_CHECKING:
    import segno
else:
    segno = import_lazily("segno")


def qr_code(text: str) -> tuple[str, int]:
    """Return the dark squares of a QR code as the `d` of an SVG path, and the code's width."""
    code = segno.make(text, error="m", micro=False)
    runs: list[str] = []
    for y, row in enumerate(code.matrix_iter(border=4)):
        start = None
        for x, dark in enumerate((*row, 0)):
            if dark and start is None:
                start = x
            elif not dark and start is not None:
                runs.append(f"M{start} {y}h{x - start}v1h-{x - start}z")
                start = None
    width, _ = code.symbol_size(border=4)
    return "".join(runs), int(width)
