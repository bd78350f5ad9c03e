"""Declared APIs as a feature: what the server takes from them."""

from typing import TYPE_CHECKING

from valetkey.authorization.apis.applied import DECLARED
from valetkey.authorization.apis.operations import APIS
from valetkey.authorization.feature import Feature
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.kernel.text import translatable

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.apis.pages import console_pages  # noqa: PLC0415 - see `feature`

    return console_pages(services)


FEATURE = Feature(
    "apis",
    operations=APIS,
    console=_console,
    console_after=("/admin/clients",),
    links=(ObjectLink("/apis/{api_id}", "api", translatable("API"), "/admin/apis/{api_id}"),),
    declared=(DECLARED,),
)
