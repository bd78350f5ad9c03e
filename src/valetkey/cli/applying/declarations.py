"""Apply what the file declares of accounts."""

from collections.abc import Mapping
from typing import cast

from valetkey.authorization.actions.attributes import declare_attribute
from valetkey.authorization.model.account.attribute import Attribute
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying.file import Wanted
from valetkey.cli.applying.step import Action, Step, unfit
from valetkey.kernel.moment import Instant


def declare(tx: Transaction, wanted: Wanted, now: Instant) -> Step:
    """Declare or change an attribute. Raises Unfit if the rules do not allow it."""
    given = wanted.given
    attribute = Attribute(
        wanted.text("name"),
        wanted.text("label"),
        cast("Mapping[str, object]", given.get("schema", {})),
        given.get("editable") is True,
    )
    is_new = all(each.name != attribute.name for each in tx.declarations.attributes())
    changed = declare_attribute(tx, attribute, now)
    if isinstance(changed, tuple):
        raise unfit(wanted, changed)
    done = Action.MAKE if is_new else Action.CHANGE if changed else Action.KEEP
    return Step(done, "attribute", attribute.name)
