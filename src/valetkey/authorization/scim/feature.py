"""SCIM as a feature: what the server takes from it."""

from typing import TYPE_CHECKING

from valetkey.authorization.background.maintenance import BATCH
from valetkey.authorization.feature import CommandGroup, EndpointParts, Feature
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.scim.doctor import CHECKS
from valetkey.authorization.scim.operations import OPERATIONS
from valetkey.authorization.scim.storage import (
    EVENTS,
    ScimCredentials,
    delete_of_group,
    delete_of_user,
    directory_name,
    exported,
)
from valetkey.authorization.storage.transaction import Hooks, SubjectNames, Transaction

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage
    from valetkey.web.router import Route


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.scim.pages import ScimPages  # noqa: PLC0415 - see `feature`

    return ScimPages(services).pages()


def _endpoints(parts: EndpointParts) -> "tuple[Route, ...]":
    from valetkey.authorization.scim.endpoints.routes import routes  # noqa: PLC0415 - only servers

    return routes(parts.services, parts.server.decisions)


def _named(tx: Transaction, credential_id: str) -> tuple[str, str] | None:
    name = directory_name(tx, credential_id)
    return (name, "/admin/scim") if name else None


_COMMANDS = CommandGroup(
    "scim",
    purpose="manage credentials for provisioning by SCIM",
    help="""
    Manage credentials with which a directory such as Okta or Entra ID creates, changes and
    disables users, and keeps groups, at /scim/v2. It never changes a user who has a role.

    Example: valetkey scim create Okta
    """,
    guide="how-to/people/provision-by-scim",
    examples={"credential_id": "sc_aLK10lrmv1k2fsuxsIlNQs"},
)

FEATURE = Feature(
    "scim",
    events=EVENTS,
    operations=OPERATIONS,
    tag="tokens",
    commands=(_COMMANDS,),
    hooks=lambda _: Hooks(
        user_deleted=(delete_of_user,),
        group_deleted=(delete_of_group,),
        user_exported=(exported,),
        subjects_named=(SubjectNames("scim", _named),),
        directory_named=(directory_name,),
    ),
    console=_console,
    console_after=("/admin/attributes", "/admin/roles"),
    endpoints=_endpoints,
    sweeps=(lambda tx, now: ScimCredentials.of(tx).sweep(now, BATCH),),
    checks=CHECKS,
)
