"""Decode an untrusted image and encode it again as a small WebP."""

import warnings
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from valetkey.kernel.runtime import import_lazily

if TYPE_CHECKING:
    from PIL import Image, ImageOps
else:
    Image, ImageOps = import_lazily("PIL.Image"), import_lazily("PIL.ImageOps")

SIDE = 128
"""Width and height of the copy, in pixels."""

PORTRAIT_SIDE = 256
"""Width and height of a user's picture, in pixels."""

BANNER = (480, 96)
"""Largest width and height of the logo of the pages, in pixels: twice the size it is shown at."""

LARGEST_COPY = 65_536
"""Maximum size of the copy, in bytes."""

MOST_PIXELS = 4_000_000
"""Maximum size of the original in pixels; 4 million pixels take 16 MB when decoded."""

MEDIA_TYPE = "image/webp"
"""The media type of every copy."""

MOST_JPEG_PIXELS = 64_000_000
"""Maximum size of a baseline JPEG, which is scaled down to an eighth as it is decoded."""

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_JPEG, _RIFF = b"\xff\xd8", b"RIFF"
_SCAN = b"\xff\xda"
_MOST_SCANS = 100


_Shape = Callable[["Image.Image"], "Image.Image"]


class UnusableImage(Exception):
    """The bytes are not a usable image; `check` gives the reason for the operator's log."""

    def __init__(self, check: str) -> None:
        """Record the failed `check`."""
        super().__init__("these bytes are no usable image")
        self.check = f"image.{check}"


def small_copy(data: bytes) -> bytes:
    """Return the first frame of a PNG, JPEG, GIF or WebP, fitted into 128 x 128, as WebP.

    The format is detected from the content, not from a header or a name. Only pixels are kept:
    metadata, color profiles and trailing bytes are dropped. Takes up to 0.5 s: call it on a
    thread. Raises UnusableImage; an image that takes more than 4 million pixels to decode is
    rejected before it is decoded.
    """
    return _safely(data, _fitted)


def portrait(data: bytes) -> bytes:
    """Return a copy cropped to a square of 256 x 256 pixels, for the picture of a user."""
    return _safely(data, _cropped)


def banner(data: bytes) -> bytes:
    """Return a copy that fits into 480 x 96 pixels, for the logo of the pages."""
    return _safely(data, _within)


def _safely(data: bytes, shape: "_Shape") -> bytes:
    # Each scan of a progressive JPEG costs a pass over all pixels and takes as little as ten bytes.
    if data.startswith(_JPEG) and data.count(_SCAN) > _MOST_SCANS:
        raise UnusableImage("scans")
    # Pillow allocates the canvas of a WebP before it reports the dimensions.
    if data.startswith(_RIFF) and _webp_pixels(data) > MOST_PIXELS:
        raise UnusableImage("pixels")
    # The warning concerns sizes that are rejected below.
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    try:
        return _copied(data, shape)
    except UnusableImage:
        raise
    except Image.DecompressionBombError:
        raise UnusableImage("pixels") from None
    # Decoders raise arbitrary exceptions on malformed input.
    except Exception:  # noqa: BLE001
        raise UnusableImage("type") from None


def _copied(data: bytes, shape: "_Shape") -> bytes:
    with Image.open(BytesIO(data), formats=_FORMATS) as opened:
        # A photograph has more pixels than allowed, and its decoder can leave most of them out. A
        # progressive JPEG keeps all coefficients in memory however small the result.
        if opened.format == "JPEG" and not opened.info.get("progressive"):
            if opened.width * opened.height > MOST_JPEG_PIXELS:
                raise UnusableImage("pixels")
            opened.draft(None, (2 * PORTRAIT_SIDE, 2 * PORTRAIT_SIDE))
        if opened.width * opened.height > MOST_PIXELS:
            raise UnusableImage("pixels")
        upright = ImageOps.exif_transpose(opened).convert("RGBA")
    encoded = BytesIO()
    shape(upright).save(encoded, "WEBP", quality=85)
    if encoded.tell() > LARGEST_COPY:
        raise UnusableImage("large")
    return encoded.getvalue()


def _fitted(upright: "Image.Image") -> "Image.Image":
    fitted = ImageOps.contain(upright, (SIDE, SIDE))
    copy = Image.new("RGBA", (SIDE, SIDE))
    copy.paste(fitted, ((SIDE - fitted.width) // 2, (SIDE - fitted.height) // 2))
    return copy


def _cropped(upright: "Image.Image") -> "Image.Image":
    return ImageOps.fit(upright, (PORTRAIT_SIDE, PORTRAIT_SIDE))


def _within(upright: "Image.Image") -> "Image.Image":
    return ImageOps.contain(upright, BANNER)


def _webp_pixels(data: bytes) -> int:
    """Return the number of pixels of the canvas given by the header (RFC 9649 section 2)."""
    kind, body = data[12:16], data[20:30]
    if len(body) < 10:  # noqa: PLR2004 - what the longest of the three headers needs
        raise UnusableImage("type")
    if kind == b"VP8X":
        width, height = int.from_bytes(body[4:7], "little"), int.from_bytes(body[7:10], "little")
        return (width + 1) * (height + 1)
    if kind == b"VP8 ":
        width, height = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
        return (width & 0x3FFF) * (height & 0x3FFF)
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
    raise UnusableImage("type")
