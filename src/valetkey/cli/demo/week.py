"""Initial data of the demo: an owner, and Ada's app with a week of usage."""

from valetkey.authorization.actions.admin.roles import set_role
from valetkey.authorization.actions.developer.usage import PEOPLE, PKCE_MISSING, grant_used
from valetkey.authorization.model.account.user import Role, Uid
from valetkey.authorization.model.register.client import Membership, TeamRole
from valetkey.authorization.storage.register.usage import EVERY_CLIENT, day_of, start_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

ADA = Uid(1001)
GRACE = Uid(1002)
APP = "printer"

_WEEK = (
    # Tokens for a code, by a refresh token, errors, users: the oldest day first.
    (12, 31, 0, 1),
    (17, 42, 1, 2),
    (15, 48, 0, 2),
    (23, 61, 3, 2),
    (9, 24, 0, 1),
    (6, 19, 1, 1),
    (21, 57, 0, 2),
)


def begin(tx: Transaction, now: Instant) -> None:
    """Make Grace the owner, and Notes Printer an app of Ada's. Harmless a second time."""
    grace = tx.users.find(GRACE)
    if grace is not None and grace.role is None:
        set_role(tx, grace, Role.OWNER, None, now)
    if tx.members.add(Membership(APP, ADA, TeamRole.OWNER, now)):
        _week_of_usage(tx, now)


def _week_of_usage(tx: Transaction, now: Instant) -> None:
    """Count what the server would have counted on each of the seven days before today."""
    today = day_of(now)
    for day, (codes, refreshes, errors, people) in enumerate(_WEEK, today - len(_WEEK)):
        counted = {
            "tokens.authorization_code": codes,
            "tokens.refresh_token": refreshes,
            "errors.invalid_grant": errors,
            PEOPLE: people,
        }
        for kind, amount in counted.items():
            if amount:
                for client in (APP, EVERY_CLIENT):
                    tx.usage.count(client, day, kind, amount)
        for uid in (ADA, GRACE)[:people]:
            for client in (APP, EVERY_CLIENT):
                tx.usage.was_active(client, uid, day)
    # Health: its requests carry no code challenge.
    yesterday = start_of(today - 1)
    for what in (PKCE_MISSING, grant_used("authorization_code"), grant_used("refresh_token")):
        tx.usage.note(APP, what, yesterday)
