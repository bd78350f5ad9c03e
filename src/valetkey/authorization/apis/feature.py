"""Declared APIs as a feature: what the server takes from them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from valetkey.authorization.actions.admin.search import Match, SearchKind
from valetkey.authorization.apis.applied import DECLARED
from valetkey.authorization.apis.operations import APIS
from valetkey.authorization.apis.storage import ApiSearch
from valetkey.authorization.feature import Feature
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.authorization.storage.transaction import Hooks, SubjectNames, Transaction
from valetkey.kernel.text import translatable

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.apis.pages import console_pages  # noqa: PLC0415 - see `feature`

    return console_pages(services)


_PAGE = ObjectLink("/apis/{api_id}", "api", translatable("API"), "/admin/apis/{api_id}")


def _find(tx: Transaction, text: str, limit: int) -> Sequence[Match]:
    rows = ApiSearch(tx.db).matching(text, limit)
    return [Match(name, _PAGE.to(api_id)[2], identifier) for api_id, name, identifier in rows]


def _named(tx: Transaction, api_id: str) -> tuple[str, str] | None:
    api = tx.apis.find(api_id)
    return None if api is None else (api.name, _PAGE.to(api_id)[2])


FEATURE = Feature(
    "apis",
    hooks=lambda _: Hooks(subjects_named=(SubjectNames("api", _named),)),
    operations=APIS,
    console=_console,
    console_after=("/admin/clients",),
    links=(_PAGE,),
    search_kinds=lambda _: (SearchKind(translatable("APIs"), _find, "/admin/apis"),),
    declared=(DECLARED,),
)
