"""A plot as SVG, without a library: groups of bars, readable on light and on dark."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

Bars = Mapping[str, Sequence[tuple[str, float]]]
"""By group: each name with its figure; 0 for none."""

_WIDTH = 880
_LEFT = 280
_RIGHT = 70
_BAR = 11
_GAP = 16
_TOP = 78
_TITLE = "Operations per CPU-second, database included (logarithmic scale)"
# In the order of the servers: as many as there are, ceilings apart.
_COLOURS = (
    "#2563eb",
    "#60a5fa",
    "#d97706",
    "#fbbf24",
    "#6b7280",
    "#a1a1aa",
    "#9333ea",
    "#c084fc",
    "#0f766e",
    "#be123c",
)
_STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2937; }
.title { font-size: 15px; font-weight: 600; }
.line { stroke: #d1d5db; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #111827; }
  text { fill: #e5e7eb; }
  .line { stroke: #374151; }
}
</style>"""


def draw(bars: Bars, own: Sequence[str]) -> str:
    """The plot; the scale is logarithmic, and says so. The names in `own` are written bold."""
    names = list(dict.fromkeys(name for group in bars.values() for name, _ in group))
    colours = dict(zip(names, _COLOURS, strict=False))
    top = max((figure for group in bars.values() for _, figure in group), default=10.0)
    decades = math.ceil(math.log10(top) - 1)
    height = _TOP + sum(len(group) * _BAR + _GAP for group in bars.values()) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Operations per CPU-second of each server, by workload</title>",
        _STYLE,
        f'<rect class="ground" width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="16" y="24">{_TITLE}</text>',
        *_legend(names, colours, own),
        *_scale(decades, height),
    ]
    y = _TOP
    for group, figures in bars.items():
        middle = y + len(figures) * _BAR / 2 + 4
        lines.append(
            f'<text x="{_LEFT - 10}" y="{middle:g}" text-anchor="end">{escape(group)}</text>'
        )
        for name, figure in figures:
            if figure:
                width = _place(figure, decades) - _LEFT
                lines.append(
                    f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}"'
                    f' fill="{colours[name]}"><title>{escape(name)}: {figure:,.0f}</title></rect>'
                )
                lines.append(
                    f'<text x="{_LEFT + width + 4:.1f}" y="{y + 8}" style="font-size:9px">'
                    f"{figure:,.0f}</text>"
                )
            y += _BAR
        y += _GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


def _place(figure: float, decades: int) -> float:
    """Where a figure lies: 10 at the left."""
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * max(0.0, math.log10(figure) - 1) / decades


def _legend(names: Sequence[str], colours: Mapping[str, str], own: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        x, y = 16 + number % 3 * 280, 40 + number // 3 * 16
        weight = ' style="font-weight:600"' if name in own else ""
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colours[name]}"/>'
        yield f'<text x="{x + 16}" y="{y}"{weight}>{escape(name)}</text>'


def _scale(decades: int, height: int) -> Iterator[str]:
    for decade in range(decades + 1):
        x = _place(10.0 ** (decade + 1), decades)
        yield f'<line class="line" x1="{x:g}" x2="{x:g}" y1="{_TOP - 8}" y2="{height - 24}"/>'
        yield (
            f'<text x="{x:g}" y="{height - 8}" text-anchor="middle">{10 ** (decade + 1):,}</text>'
        )
