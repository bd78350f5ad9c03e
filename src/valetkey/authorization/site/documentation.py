"""GET /docs/…: the documentation site in this package, and links to its pages."""

import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec import Struct

from valetkey.authorization.layout.language import accepted
from valetkey.kernel.preconditions import etag_of
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Pairs, Request, Response

ARCHIVE = Path(__file__).with_suffix(".zip")
"""The archive built by `make site`; missing in a checkout where that was not run."""

_CHECKOUT = Path(__file__).parents[4]

START = "/docs/"
FILES = "/docs/{+file}"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webp": "image/webp",
}
_NOT_BUILT = translatable(
    "The documentation is not built in this source checkout. Run `make site` there and restart the"
    " server, or read the files of its folder docs."
)
# The theme sets style attributes; it runs no inline scripts.
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HASHED = re.compile(r"\.[0-9a-f]{8}\.min\.|(?:^|/)[0-9a-f]{8}\.min\.")
_IMMUTABLE = "public, max-age=31536000, immutable"
_REVALIDATED = "public, no-cache"
# A gzip file is a ZIP entry's compressed bytes between this and its CRC and size (RFC 1952).
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LOCAL_HEADER = struct.Struct("<26xHH")


class DocumentationEndpoint(Struct, frozen=True):
    """Serve the files of the archive, kept compressed in memory."""

    files: Mapping[str, "DocumentationFile"]

    async def get(self, request: Request) -> Response:
        """Return the file of that path; 404 if the archive does not have it."""
        name = request.arguments.get("file", "") or "index.html"
        if name.endswith("/"):
            name += "index.html"
        file = self.files.get(name)
        if not self.files:
            raise Refused.because(ErrorCode.NOT_FOUND, _NOT_BUILT, "docs.not_built")
        if file is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this page does not exist", "docs.file")
        headers: Pairs = (
            ("cache-control", file.cached),
            # Weak, because the same tag stands for both encodings.
            ("etag", f"W/{file.etag}"),
            ("vary", "accept-encoding"),
            ("content-type", file.content_type),
            ("content-security-policy", _POLICY),
        )
        if "gzip" in accepted((request.headers.get("accept-encoding") or "").lower()):
            return Response(200, file.gzip, (*headers, ("content-encoding", "gzip")))
        return Response(200, zlib.decompress(file.gzip, _ANY_HEADER), headers)


class DocumentationFile(Struct, frozen=True):
    """One file, compressed with the content coding of its response."""

    gzip: bytes
    etag: str
    content_type: str
    cached: str


_ANY_HEADER = zlib.MAX_WBITS | 32


def documentation() -> DocumentationEndpoint:
    """Return the endpoint of the archive; it serves nothing if the archive was not built."""
    return DocumentationEndpoint(read(ARCHIVE) if ARCHIVE.is_file() else {})


def start_of(url: str) -> str:
    """Return the base of links for a `docs.url`, with a slash at the end; "" for none."""
    return f"{url.rstrip('/')}/" if url else START if ARCHIVE.is_file() else ""


def address_of(page: str, url: str, issuer: str) -> str:
    """Return where an operator reads a page of the documentation, named without its ending.

    It is a file of the checkout where no site is built, and "" where there is neither.
    """
    base = base_of(url, issuer)
    return f"{base}{page}.html" if base else in_checkout(page)


def in_checkout(page: str) -> str:
    """Return the file of a page in the checkout that this runs from; "" if it is installed."""
    file = _CHECKOUT / "docs" / f"{page}.md"
    return str(file) if file.is_file() else ""


def base_of(url: str, issuer: str) -> str:
    """Return the URL below which the pages are served, with a slash at the end; "" for none."""
    start = start_of(url)
    return f"{issuer.rstrip('/')}{start}" if start == START else start


@cache
def read(archive: Path) -> Mapping[str, DocumentationFile]:
    """Read all files of an archive, without decompressing them."""
    content = archive.read_bytes()
    with zipfile.ZipFile(archive) as entries:
        return {entry.filename: _file(content, entry) for entry in entries.infolist()}


def _file(content: bytes, entry: zipfile.ZipInfo) -> DocumentationFile:
    name, extra = _LOCAL_HEADER.unpack_from(content, entry.header_offset)
    start = entry.header_offset + _LOCAL_HEADER.size + name + extra
    compressed = content[start : start + entry.compress_size]
    ending = struct.pack("<II", entry.CRC, entry.file_size)
    return DocumentationFile(
        b"".join((_GZIP_HEAD, compressed, ending)),
        etag_of(compressed),
        _TYPES.get(PurePosixPath(entry.filename).suffix, _TYPES[".txt"]),
        _IMMUTABLE if _HASHED.search(entry.filename) else _REVALIDATED,
    )
