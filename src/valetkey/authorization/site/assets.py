"""GET /assets/…, /logos/… and /pictures/…: immutable files."""

import re

from msgspec import Struct

from valetkey.authorization.actions.users import PICTURES
from valetkey.authorization.layout.assets import CACHE_CONTROL, Asset, CurrentBrand, assets
from valetkey.authorization.storage.transaction import Store
from valetkey.fetch.image import MEDIA_TYPE
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.exchange import Request, Response

ASSETS = "/assets/{file}"
LOGOS = "/logos/{name}"
UPLOADED = f"{PICTURES}/{{name}}"

_SANDBOX = "default-src 'none'; sandbox"
_NAME = re.compile(r"[A-Za-z0-9_-]{22}")
_IMAGE = (
    ("content-type", MEDIA_TYPE),
    ("cache-control", CACHE_CONTROL),
    # Only an image, even if a browser opens it as a page.
    ("content-security-policy", _SANDBOX),
)
_PICTURE = (
    ("content-type", MEDIA_TYPE),
    # Not for a year: a removed picture must disappear soon.
    ("cache-control", "public, max-age=3600"),
    ("content-security-policy", _SANDBOX),
    # Apps embed it in their pages.
    ("cross-origin-resource-policy", "cross-origin"),
)


class AssetEndpoint(Struct, frozen=True):
    """Serve the stylesheet, the icon, the scripts and the files of a theme."""

    book: CurrentBrand
    store: Store

    async def get(self, request: Request) -> Response:
        """Return the file. Reads the theme again first: another process may show a newer one."""
        asset = self.book.asset(request.path)
        if asset is None:
            await self.book.refresh(self.store)
            asset = self.book.asset(request.path)
        if asset is not None:
            return _answer(asset, CACHE_CONTROL)
        # A page of a server of another version may still be open.
        current = _current(self.book, request.path)
        if current is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this file does not exist", "assets.file")
        return _answer(current, "no-store")


class LogoEndpoint(Struct, frozen=True):
    """Serve copies of the logos of apps and of the brand; every copy has a name of its own."""

    store: Store

    async def get(self, request: Request) -> Response:
        """Return the image of that name."""
        name = request.arguments["name"]
        image = None
        if _NAME.fullmatch(name):
            image = await self.store.read(lambda tx: tx.logos.image(name) or tx.brand.logo(name))
        if image is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this logo does not exist", "logos.name")
        return Response(200, image, _IMAGE)


class PictureEndpoint(Struct, frozen=True):
    """Serve pictures that users uploaded, under names that cannot be guessed."""

    store: Store

    async def get(self, request: Request) -> Response:
        """Return the picture of that name."""
        name = request.arguments["name"]
        image = None
        if _NAME.fullmatch(name):
            image = await self.store.read(lambda tx: tx.pictures.image(name))
        if image is None:
            raise Refused.because(
                ErrorCode.NOT_FOUND, "this picture does not exist", "pictures.name"
            )
        return Response(200, image, _PICTURE)


def _current(book: CurrentBrand, path: str) -> Asset | None:
    name, _, digest = path.rpartition("-")
    if not digest:
        return None
    return next((a for a in assets(book.current) if a.path.rpartition("-")[0] == name), None)


def _answer(asset: Asset, cached: str) -> Response:
    headers = (("content-type", asset.content_type), ("cache-control", cached), *asset.headers)
    return Response(200, asset.body, headers)
