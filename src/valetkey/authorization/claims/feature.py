"""Declared attributes and claims as a feature: what the server takes from them."""

from typing import TYPE_CHECKING

from valetkey.authorization.claims.applied import DECLARED
from valetkey.authorization.claims.model import EVENTS, Declarations
from valetkey.authorization.claims.operations import ATTRIBUTES, CLAIMS
from valetkey.authorization.feature import CommandGroup, Feature
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.authorization.storage.transaction import Hooks
from valetkey.kernel.text import translatable

if TYPE_CHECKING:
    from valetkey.authorization.site.page import AnyPage


def _console(services: Services) -> "tuple[AnyPage, ...]":
    from valetkey.authorization.claims.pages import console_pages  # noqa: PLC0415 - see `feature`

    return console_pages(services)


_PREVIEW = translatable("Preview tokens")

FEATURE = Feature(
    "claims",
    events=EVENTS,
    operations=CLAIMS,
    core_operations={"people": ATTRIBUTES},
    commands=(
        CommandGroup(
            "attribute",
            purpose="declare attributes of accounts, such as a department",
            help="""
    Declare attributes of accounts, with the servers running or stopped.

    The values of a user are set by valetkey user set-attributes, or by valetkey apply.

    Example: valetkey attribute declare department --label Department
    """,
            guide="how-to/people/groups",
            examples={"attribute": "department"},
        ),
        CommandGroup(
            "claims",
            purpose="declare claims of tokens",
            help="""
    Declare claims of tokens, and preview them, with the servers running or stopped.

    Example: valetkey claims declare department --from attribute:department --in id_token
    """,
            guide="how-to/people/groups",
            examples={"claim": "department"},
        ),
    ),
    hooks=lambda _: Hooks(
        attributes=(lambda db: Declarations(db).attributes(),),
        claims=(lambda db: Declarations(db).claims(),),
    ),
    console=_console,
    console_after=("/admin/apis", "/admin/clients"),
    console_places={"/admin/attributes": ("/admin/roles",)},
    links=(
        ObjectLink("/users/{uid}", "preview", _PREVIEW, "/admin/claims/preview?person=uid%3A{uid}"),
        ObjectLink(
            "/clients/{client_id}", "preview", _PREVIEW, "/admin/claims/preview?client={client_id}"
        ),
    ),
    declared=DECLARED,
)
