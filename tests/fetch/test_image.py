"""What becomes of an image that a stranger supplied."""

import io
import random
import struct
import time
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from PIL import Image

from valetkey.fetch.image import LARGEST_COPY, MOST_PIXELS, SIDE, UnusableImage, small_copy

MARKER = b"MARKER-THAT-MUST-NOT-SURVIVE"


def drawn(
    kind: str, size: tuple[int, int] = (300, 200), mode: str = "RGB", **more: object
) -> bytes:
    written = io.BytesIO()
    Image.new(mode, size, 200 if mode == "L" else (220, 40, 40)).save(written, kind, **more)
    return written.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: bytes = b"", *before: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(before) + data + chunk(b"IEND", b"")


def webp(kind: bytes, body: bytes) -> bytes:
    part = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(part)) + b"WEBP" + part


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_image_becomes_a_small_square_webp(kind: str) -> None:
    copy = small_copy(drawn(kind))
    assert len(copy) <= LARGEST_COPY
    with Image.open(io.BytesIO(copy)) as shown:
        assert (shown.format, shown.size, shown.mode) == ("WEBP", (SIDE, SIDE), "RGBA")
        red, green, _, opaque = shown.getpixel((SIDE // 2, SIDE // 2))  # type: ignore[misc]
        assert red > 180
        assert green < 90
        assert opaque == 255
        # 3:2 is fitted in, not stretched.
        assert shown.getpixel((SIDE // 2, 2))[3] == 0  # type: ignore[index]


def test_copy_of_random_noise_stays_within_the_size_limit() -> None:
    noise = random.Random(7).randbytes(SIDE * SIDE * 4)
    written = io.BytesIO()
    Image.frombytes("RGBA", (SIDE, SIDE), noise).save(written, "PNG")
    assert len(small_copy(written.getvalue())) <= LARGEST_COPY


def test_metadata_and_trailing_data_are_removed() -> None:
    comment = chunk(b"tEXt", b"Comment\0" + MARKER)
    rows = b"\0" + b"\xff\0\0" * 8
    tricky = png(8, 8, rows * 8, comment) + b"<script>" + MARKER
    assert MARKER not in small_copy(tricky)
    jpeg = drawn("JPEG", comment=MARKER, icc_profile=MARKER * 20)
    assert MARKER in jpeg
    assert MARKER not in small_copy(jpeg)


def test_orientation_of_a_photograph_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    copy = small_copy(drawn("JPEG", (300, 100), exif=exif))
    with Image.open(io.BytesIO(copy)) as shown:
        assert shown.getbbox() is not None
        left, top, right, bottom = shown.getchannel("A").getbbox() or (0, 0, 0, 0)
        assert bottom - top > 2 * (right - left)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"<html>" + MARKER,
        SVG,
        b'<?xml version="1.0"?>' + SVG,
        drawn("BMP"),
        drawn("TIFF"),
        drawn("ICO"),
        drawn("PPM"),
        drawn("PNG")[:120],
        drawn("JPEG")[:200],
        webp(b"VP8L", b"\x2f"),
        webp(b"XXXX", b"\0" * 30),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%id) (r) file\n",
    ],
    ids=str,
)
def test_data_of_other_types_is_refused(data: bytes) -> None:
    with pytest.raises(UnusableImage) as caught:
        small_copy(data)
    assert caught.value.check == "image.type"


@pytest.mark.parametrize(
    ("data", "check"),
    [
        # 81 million pixels in nine kilobytes.
        (png(9_000, 9_000, b"\0" * 9_000_000), "image.pixels"),
        (png(2**31 - 1, 2**31 - 1), "image.pixels"),
        (drawn("GIF").replace(struct.pack("<HH", 300, 200), b"\xff\xff\xff\xff"), "image.pixels"),
        (webp(b"VP8X", b"\0\0\0\0" + b"\xff\x3f\0" + b"\xff\x3f\0"), "image.pixels"),
        (webp(b"VP8L", b"\x2f\xff\xff\xff\x0f" + b"\0" * 9), "image.pixels"),
        (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f" + b"\0" * 9), "image.pixels"),
        (drawn("JPEG", progressive=True) + b"\xff\xda" * 200, "image.scans"),
    ],
    ids=["png", "png-most", "gif", "webp-extended", "webp-lossless", "webp-lossy", "jpeg-scans"],
)
def test_bombs_are_refused_before_they_are_unpacked(data: bytes, check: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(UnusableImage) as caught:
            small_copy(data)
        assert caught.value.check == check
        # The work is that of reading a header, however large the image says that it is.
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
        assert time.process_time() - began < 1
    finally:
        tracemalloc.stop()


def test_text_that_unpacks_to_megabytes_is_refused_or_left_out() -> None:
    bomb = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"A" * 50_000_000, 9))
    rows = (b"\0" + b"\xff\0\0" * 8) * 8
    with suppress(UnusableImage):
        assert len(small_copy(png(8, 8, rows, bomb))) <= LARGEST_COPY


def test_image_of_the_maximum_pixels_is_accepted_and_a_larger_one_refused() -> None:
    assert small_copy(drawn("PNG", (2_000, MOST_PIXELS // 2_000)))
    with pytest.raises(UnusableImage):
        small_copy(drawn("PNG", (2_000, MOST_PIXELS // 2_000 + 1)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_damaged_images_are_refused_or_copied(kind: str) -> None:
    chance = random.Random(20)
    good = drawn(kind, (64, 64))
    for _ in range(150):
        data = bytearray(good)
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        # Anything but Unusable would end the work of the thread that decodes.
        with suppress(UnusableImage):
            assert len(small_copy(bytes(data))) <= LARGEST_COPY
