"""Record the demo as an animated SVG for the start page: `make screenshots`."""

import subprocess
import sys
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "demo.svg"
SECONDS = 30
_COMMAND = "valetkey demo --walk"
_LINE, _TOP, _LEFT, _WIDTH = 20, 44, 20, 760
_TYPED = 2.0
"""Seconds of typing the command, before the output starts."""
_REST = 6.0
"""Seconds for which the complete output is shown."""
_STYLE = """
text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d6dbe1;white-space:pre}
.done{fill:#7fd18b}.command{fill:#ffffff}
.line{animation:show SECONDSs infinite;opacity:0}
@media(prefers-reduced-motion:reduce){.line{animation:none;opacity:1}}
"""


def picture(output: str) -> str:
    """Return the output of `valetkey demo --walk` as SVG, line by line within 30 seconds."""
    lines = [f"$ {_COMMAND}", "", *output.strip().splitlines()]
    height = _TOP + _LINE * len(lines) + 10
    pause = (SECONDS - _TYPED - _REST) / len(lines)
    style, rows = [_STYLE.replace("SECONDS", str(SECONDS))], []
    for number, line in enumerate(lines):
        begins = 100 * (_TYPED + pause * number if number else 0) / SECONDS
        style.append(
            f"#l{number}{{animation-name:s{number}}}"
            f"@keyframes s{number}{{0%,{begins:.1f}%{{opacity:0}}"
            f"{begins + 0.5:.1f}%,100%{{opacity:1}}}}"
        )
        kind = "done" if line.startswith("✓") else "" if number else "command"
        rows.append(
            f'<text id="l{number}" class="line {kind}" x="{_LEFT}" y="{_TOP + _LINE * number}">'
            f"{escape(line)}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
        f"<title>{_COMMAND}</title><style>{''.join(style)}</style>"
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#16191d"/>'
        f"{''.join(rows)}</svg>\n"
    )


def main() -> None:
    """Run `valetkey demo --walk` and write the SVG."""
    program = Path(sys.executable).parent / "valetkey"
    walk = subprocess.run(
        (program, *_COMMAND.split()[1:]),
        # Printed commands are then as short as the one of the picture.
        env={"PATH": str(program.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    PICTURE.write_text(picture(walk.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
