"""Operations on declared claims of tokens."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.claims import Faults, declare_claim, remove_claim
from valetkey.authorization.model.event.claims import ClaimDeclared, ClaimRemoved
from valetkey.authorization.model.register.claim import DeclaredClaim, Place
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    Call,
    Operation,
    Result,
    reads,
    unchecked_write,
)
from valetkey.authorization.operations.records import NO_CONTROLS, Done
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused

_ONE = "/claims/{claim}"
_Source = Annotated[
    str,
    msgspec.Meta(
        pattern=NO_CONTROLS,
        min_length=1,
        max_length=1_100,
        description="attribute:NAME, groups, groups:PREFIX, roles, roles:API, constant:TEXT or "
        "email_domain.",
    ),
]
_Texts = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=500)]],
    msgspec.Meta(max_length=100),
]


class ClaimShown(msgspec.Struct, frozen=True, rename={"source": "from", "places": "in"}):
    """A declared claim; empty `clients` and `apis` stand for all."""

    name: str
    source: str
    places: list[Place]
    scope: str
    clients: list[str]
    apis: list[str]


class ClaimList(msgspec.Struct, frozen=True):
    """Declared claims by name."""

    items: list[ClaimShown]
    next: str | None = None


class ClaimWanted(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"source": "from", "places": "in"},
):
    """What a claim is to be: its source, and which tokens have it."""

    source: _Source
    places: Annotated[
        list[Place], msgspec.Meta(min_length=1, max_length=3, description="Where it is.")
    ]
    scope: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[!#-\[\]-~]*$",
            max_length=100,
            description="Only for tokens with this scope.",
        ),
    ] = ""
    clients: Annotated[
        _Texts, msgspec.Meta(extra_json_schema={"description": "Only for these client ids."})
    ] = []
    apis: Annotated[
        _Texts, msgspec.Meta(extra_json_schema={"description": "Only for these APIs."})
    ] = []


def list_claims(tx: Transaction, call: Call) -> Result:
    """List the declared claims by name."""
    return Result(ClaimList([_shown(each) for each in tx.declarations.claims()]))


def declare(tx: Transaction, call: Call) -> bool | Faults:
    """Declare or change a claim. False if it is declared so."""
    # First: the role is judged with the actor's own account held.
    tx.declarations.hold_all()
    require(tx, call.actor, call.operation.permission)
    wanted = call.input(ClaimWanted)
    claim = DeclaredClaim(
        call.named("claim"),
        wanted.source,
        tuple(place for place in Place if place in wanted.places),
        wanted.scope,
        frozenset(wanted.clients),
        frozenset(wanted.apis),
    )
    return declare_claim(tx, claim, call.services.settings.resource.url, call.now)


def remove(tx: Transaction, call: Call) -> bool:
    """Remove a declared claim. Refused: not found."""
    tx.declarations.hold_all()
    require(tx, call.actor, call.operation.permission)
    if not remove_claim(tx, call.named("claim"), call.now):
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such claim", "claim.unknown"))
    return True


def _shown(claim: DeclaredClaim) -> ClaimShown:
    return ClaimShown(
        claim.name,
        claim.source,
        list(claim.places),
        claim.scope,
        sorted(claim.clients),
        sorted(claim.apis),
    )


CLAIMS = (
    Operation(
        "list_claims",
        "GET",
        "/claims",
        Permission.READ,
        "Declared claims of tokens",
        reads(list_claims),
        gives=ClaimList,
        lists=True,
        commands=(Command(empty="No claim is declared."),),
    ),
    Operation(
        "declare_claim",
        "PUT",
        _ONE,
        Permission.CLIENTS,
        "Declare or change a claim of tokens",
        unchecked_write(declare),
        description="Tokens have it from the next one on.",
        takes=ClaimWanted,
        gives=Done,
        refuses=(404,),
        event=ClaimDeclared,
        commands=(
            Command(
                options=(Option("source", "--from"), Option("places", "--in")),
                example="department --from attribute:department --in id_token --in userinfo",
                done="The claim {claim} is declared.",
                unchanged="The claim {claim} is declared like this; nothing changed.",
            ),
        ),
    ),
    Operation(
        "remove_claim",
        "DELETE",
        _ONE,
        Permission.CLIENTS,
        "Remove a declared claim; tokens that were issued keep it",
        unchecked_write(remove),
        gives=Done,
        refuses=(404,),
        event=ClaimRemoved,
        commands=(
            Command(
                question="Remove this claim? Apps that rely on it may refuse users.",
                done="The claim {claim} is not declared any more.",
            ),
        ),
    ),
)
