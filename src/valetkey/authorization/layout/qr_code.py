"""QR codes as SVG paths."""

from typing import TYPE_CHECKING

from valetkey.kernel.runtime import import_lazily

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
