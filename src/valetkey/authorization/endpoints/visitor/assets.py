"""GET /assets/…: the stylesheet and the icon, for ever under their addresses."""

from collections.abc import Iterator

from valetkey.authorization.pages.looks.asset import CACHE_CONTROL, Asset, assets
from valetkey.authorization.pages.looks.brand import Brand
from valetkey.web.exchange import Endpoint, Refuse, Request, Response
from valetkey.web.router import Route


def asset_routes(brand: Brand, refuse: Refuse) -> Iterator[Route]:
    """A route for each file that this brand's pages refer to."""
    for asset in assets(brand):
        endpoint = _serving(asset)
        yield Route(asset.path, {"GET": endpoint, "HEAD": endpoint}, refuse)


def _serving(asset: Asset) -> Endpoint:
    headers = (("content-type", asset.content_type), ("cache-control", CACHE_CONTROL))
    response = Response(200, asset.body, headers)

    async def serve(request: Request) -> Response:
        return response

    return serve
