"""Device authorization as a feature: what the server takes from it (RFC 8628)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from valetkey.authorization.background.maintenance import BATCH
from valetkey.authorization.device.model import DEVICE_AUTHORIZATION, EVENTS
from valetkey.authorization.device.rules import GRANT_TYPE
from valetkey.authorization.device.settings import DeviceSettings
from valetkey.authorization.device.storage import DeviceCodes, delete_all
from valetkey.authorization.feature import EndpointParts, Feature, Site
from valetkey.authorization.storage.transaction import Hooks, Transaction
from valetkey.kernel.moment import Instant, hours

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage
    from valetkey.web.router import Route

_MEMORY = hours(1)
"""How long codes are remembered after they expired, to say so to a device that still polls."""


def _visitor(site: Site) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.device.pages import DevicePages  # noqa: PLC0415 - see `feature`

    return DevicePages(site.server, site.services.settings.section(DeviceSettings)).pages()


def _endpoints(parts: EndpointParts) -> "tuple[Route, ...]":
    from valetkey.authorization.device.endpoints import (  # noqa: PLC0415 - see `feature`
        device_authorization_route,
    )
    from valetkey.authorization.device.pages import qr_code_route  # noqa: PLC0415 - see `feature`

    return device_authorization_route(parts), qr_code_route(parts)


def _metadata(issuer: str) -> Mapping[str, object]:
    return {"device_authorization_endpoint": f"{issuer}{DEVICE_AUTHORIZATION}"}


def _sweep(tx: Transaction, now: Instant) -> int:
    return DeviceCodes.of(tx).sweep(Instant(now - _MEMORY), BATCH)


FEATURE = Feature(
    "device",
    events=EVENTS,
    hooks=lambda _: Hooks(restored=(delete_all,)),
    visitor=_visitor,
    endpoints=_endpoints,
    metadata=_metadata,
    grant_types=(GRANT_TYPE,),
    sweeps=(_sweep,),
)
