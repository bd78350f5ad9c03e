"""Check every username, which takes too long for a page of the console."""

from collections.abc import Sequence

from valetkey.authorization.actions.account.usernames import username_fault
from valetkey.authorization.actions.admin.search import summary
from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Store
from valetkey.cli.doctoring.finding import Finding, warning
from valetkey.config.settings import Settings

_PAGE = 500
_MOST_NAMED = 20


async def usernames(store: Store, settings: Settings) -> Sequence[Finding]:
    """Report usernames that could be taken for a uid, an id or the operator; they keep working."""
    brand, last, found = (settings.brand.name,), 0, list[User]()
    while users := await store.scan(lambda tx, last=last: tx.users.page(last, _PAGE)):  # type: ignore[misc]
        last = users[-1].uid
        # A deleted account has no email address.
        found += [each for each in users if each.email and username_fault(each.username, brand)]
        if len(found) >= _MOST_NAMED:
            break
    return [
        warning(
            f"user {summary(user)}",
            f"not allowed for new accounts: it has to be {username_fault(user.username, brand)}",
            f"Change it: valetkey user change uid:{user.uid} --username NAME",
        )
        for user in found[:_MOST_NAMED]
    ]
