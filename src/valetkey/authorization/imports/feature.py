"""Imports of users as a feature: what the server takes from them."""

from typing import TYPE_CHECKING

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.feature import CommandGroup, Feature
from valetkey.authorization.imports.jobs import jobs, sweep
from valetkey.authorization.imports.model import EVENTS
from valetkey.authorization.imports.operations import IMPORTS
from valetkey.authorization.operations.operation import ListLink, Services
from valetkey.kernel.text import translatable

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.imports.pages import console_pages  # noqa: PLC0415 - see `feature`

    return console_pages(services)


_COMMANDS = CommandGroup(
    "import",
    purpose="convert the export of another server to files for apply",
    help="""
    Convert users, groups and apps of another server to files for `user import` and `apply`.

    Example: valetkey import keycloak acme-realm.json --output acme
    """,
    guide="how-to/operate/migrate/from-keycloak",
    examples={},
    heading="Run",
)

FEATURE = Feature(
    "imports",
    events=EVENTS,
    operations=IMPORTS,
    tag="people",
    commands=(_COMMANDS,),
    handwritten={
        "import keycloak": "how-to/operate/migrate/from-keycloak",
        "user import": "how-to/people/import-users",
        "user check-hashes": "how-to/people/import-users",
    },
    console=_console,
    console_after=("/admin/users",),
    users_links=(
        ListLink("import", translatable("Import users"), "/admin/users/import", Permission.USERS),
    ),
    jobs=jobs,
    sweeps=(sweep,),
)
