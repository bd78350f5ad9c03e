"""The badges of README as one SVG, from what pyproject.toml declares."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_LETTER, _MARGIN, _HEIGHT, _GAP = 6.6, 8, 20, 6
_PYTHON = "Programming Language :: Python :: "


def badges() -> Iterator[str]:
    """Yield the SVG: version, versions of Python, license."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    pythons = [
        classifier.removeprefix(_PYTHON)
        for classifier in project["classifiers"]
        if classifier.startswith(f"{_PYTHON}3.")
    ]
    facts = {
        "version": str(project["version"]),
        "Python": f"{pythons[0]} to {pythons[-1]}",
        "license": str(project["license"]),
    }
    width, parts = 0, list[str]()
    for name, value in facts.items():
        left, right = (round(len(text) * _LETTER) + 2 * _MARGIN for text in (name, value))
        parts += [
            f'<rect x="{width}" width="{left + right}" height="{_HEIGHT}" rx="4" fill="#2456d6"/>',
            f'<path d="{_left_part(width, left)}" fill="#3f4651"/>',
            _text(name, width + left / 2, left),
            _text(value, width + left + right / 2, right),
        ]
        width += left + right + _GAP
    title = ", ".join(f"{name} {value}" for name, value in facts.items())
    size = f'width="{width - _GAP}" height="{_HEIGHT}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield "\n".join([start, f"<title>{title}</title>", *parts, "</svg>"])


def _left_part(x: int, width: int) -> str:
    return f"M{x + 4} 0H{x + width}V{_HEIGHT}H{x + 4}a4 4 0 0 1-4-4V4a4 4 0 0 1 4-4z"


def _text(text: str, middle: float, room: int) -> str:
    return (
        f'<text x="{middle:g}" y="14" text-anchor="middle" textLength="{room - 2 * _MARGIN}"'
        f' font-family="system-ui,sans-serif" font-size="11" fill="#fff">{text}</text>'
    )
