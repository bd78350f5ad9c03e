"""A user's data: export all of it, and remove the account, planned and carried out when due."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from valetkey.authorization.actions.admin.roles import end_issued, leave_an_owner
from valetkey.authorization.actions.attributes import attributes_of
from valetkey.authorization.actions.bulk_revocation import empty_account
from valetkey.authorization.actions.teams import own_apps, sole_owned
from valetkey.authorization.actions.users import end_everything
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.model.api import unqualified
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.email import Email, EmailKind, MailKind
from valetkey.authorization.model.event.accounts import DataExported, RemovalPlanned, UserRemoved
from valetkey.authorization.model.event.event import is_other_actor
from valetkey.authorization.model.user import TEXT_CLAIMS, Role, User
from valetkey.authorization.protocol.resource import scope_record
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.fetch.image import MEDIA_TYPE
from valetkey.kernel.moment import Instant, Lifetime, later

_AT_ONCE = 5
"""Accounts removed in one transaction of the sweep: each ends sessions and grants."""

_BECAUSE = "user_removed"
_DAY = 86_400


class Removal(Struct, frozen=True):
    """Removes accounts. Its methods run inside a transaction."""

    issuer: str
    outbox: MailOutbox
    grace: Lifetime

    def apps_without_other_owner(self, tx: Transaction, user: User) -> Sequence[Client]:
        """Return the apps without another owner: they must be transferred or deleted first."""
        return sole_owned(tx, user.uid)

    def is_last_owner(self, tx: Transaction, user: User) -> bool:
        """Return whether the user is the only owner of this server."""
        return user.role is Role.OWNER and not tx.user_directory.has_owner(but=user.uid)

    def plan(self, tx: Transaction, user: User, now: Instant) -> Instant | None:
        """Schedule the removal of the account. Return its time; None if an app lacks an owner.

        Signing in before that time cancels it. Sessions and grants end at once. Raises Refused
        (conflict) for the last owner of this server.
        """
        leave_an_owner(tx, user)
        if self.apps_without_other_owner(tx, user):
            return None
        due_at = later(now, self.grace)
        if not tx.account_removals.plan(user.uid, due_at, now):
            return tx.account_removals.due_at(user.uid)
        tx.events.add(RemovalPlanned(user.uid, due_at), now)
        end_everything(tx, user, now, "removal_planned")
        end_issued(tx, user.uid, now)
        self._email_user(tx, EmailKind.REMOVAL_PLANNED, user, now)
        return due_at

    def remove(self, tx: Transaction, user: User, now: Instant) -> bool:
        """Remove the account now, scheduled or not. False if it is already removed.

        Apps without another owner remain, without an owner. Raises Refused (conflict) for the last
        owner of this server.
        """
        tx.users.hold_alone(user.uid)
        leave_an_owner(tx, user)
        tx.account_removals.cancel(user.uid)
        tx.account_removals.plan(user.uid, now, now)
        return self._carry_out(tx, user, now)

    def sweep(self, tx: Transaction, now: Instant) -> int:
        """Remove some of the accounts whose removal is due. Return how many."""
        gone = 0
        for uid in tx.account_removals.due(now, _AT_ONCE):
            user = tx.users.find_to_change(uid)
            gone += user is not None and self._carry_out(tx, user, now)
        return gone

    def _carry_out(self, tx: Transaction, user: User, now: Instant) -> bool:
        if not tx.account_removals.finish(user.uid, now):
            return False
        end_everything(tx, user, now, _BECAUSE)
        end_issued(tx, user.uid, now)
        # First, because it may be told to others by the address that the account had.
        tx.events.add(UserRemoved(user.uid), now)
        empty_account(tx, user.uid, now, _BECAUSE)
        # Last, because queued emails are deleted with the account, and this one must stay.
        self._email_user(tx, EmailKind.REMOVED, user, now)
        return True

    def _email_user(self, tx: Transaction, kind: MailKind, user: User, now: Instant) -> None:
        if not user.email:
            return
        days = max(1, self.grace // _DAY)
        sign_in = f"{self.issuer}{SIGN_IN}"
        values = {"username": user.username, "days": str(days), "sign_in": sign_in}
        language = user.claims.locale or "en"
        self.outbox.enqueue(tx, Email(kind, user.email, language, values), now)


MOST_GRANTS = 10_000
"""Grants and consents of one user that are exported, the newest ones."""

MOST_EVENTS = 10_000
"""Events of one user that are exported, the newest ones; the operator can export the rest."""

FORMAT = 1
"""Version of the format: increased when a name changes its meaning, not when one is added."""

Said = dict[str, object]


class ExportOrigin(Struct, frozen=True):
    """The server that wrote the file, and the API with the user's other data, "" for none."""

    service: str
    issuer: str
    api: str


def export(tx: Transaction, user: User, origin: ExportOrigin, now: Instant) -> bytes:
    """Return the export as JSON, with times in UTC (RFC 3339), and record an event."""
    events = tx.events.all_of_person(user.uid, MOST_EVENTS)
    tx.events.add(DataExported(user.uid), now)
    document: Said = {
        "about": {
            "format": FORMAT,
            "service": origin.service,
            "issuer": origin.issuer,
            "made_at": moment(now),
            "elsewhere": (
                f"What the API at {origin.api} keeps for you is not in this file, and neither is "
                "what apps have read. Ask those who run them."
                if origin.api
                else "What apps have read is not in this file. Ask those who run them."
            ),
        },
        "profile": _profile(user),
        "picture": _picture(tx, user),
        "credentials": list(_credentials(tx, user)),
        **{
            name: member
            for exported in tx.hooks.user_exported
            for name, member in exported(tx, user.uid).items()
        },
        "sessions": [
            {
                "browser": " ".join(filter(None, browser_of(session.user_agent))),
                "user_agent": session.user_agent,
                "signed_in_by": list(session.methods),
                "signed_in_from": session.signed_in_from,
                "last_seen_from": session.last_seen_from,
                "created_at": moment(session.created_at),
                "last_seen_at": moment(session.last_seen_at),
                "expires_at": moment(session.expires_at),
            }
            for session in tx.sessions.live_of(user.uid, now)
        ],
        "remembered_devices": [
            {
                "user_agent": device.user_agent,
                "created_at": moment(device.created_at),
                "expires_at": moment(device.expires_at),
            }
            for device in tx.devices.of_user(user.uid, now)
        ],
        "consents": [
            {
                "client_id": consent.client_id,
                "app": _name(tx, consent.client_id),
                **scope_record(consent.scope, tx.apis.of_scopes(consent.scope)),
                "claims": sorted(consent.claims),
                "given_at": moment(consent.given_at),
            }
            for consent in tx.consents.of_user(user.uid, MOST_GRANTS)
        ],
        "grants": list(_grants(tx, user, now)),
        "attributes": attributes_of(user, tx.attributes()),
        "groups": list(tx.groups.names_of(user.uid)),
        "own_apps": [
            {
                "client_id": app.client.id,
                "name": app.client.name,
                "role": app.membership.role.value,
                "since": moment(app.membership.since),
            }
            for app in own_apps(tx, user.uid)
        ],
        "events": [_event(event) for event in events],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _profile(user: User) -> Said:
    return {
        "uid": user.uid,
        "username": user.username,
        "name": user.name,
        "email": user.email,
        "email_verified_at": moment(user.email_verified_at),
        **{name: getattr(user.claims, name) for name in TEXT_CLAIMS},
        "phone_number_verified": user.claims.phone_number_verified,
        "address": asdict(user.claims.address),
        "role": user.role,
        "created_at": moment(user.created_at),
        "changed_at": moment(user.changed_at),
        "factor_required_at": moment(user.factor_required_at),
    }


def _picture(tx: Transaction, user: User) -> Said | None:
    image = tx.pictures.image(tx.pictures.name_of(user.uid))
    if image is None:
        return None
    return {"media_type": MEDIA_TYPE, "base64": b64encode(image).decode("ascii")}


def _credentials(tx: Transaction, user: User) -> Iterable[Said]:
    for kind, name, created_at, last_used_at in tx.user_directory.factors_of(user.uid):
        yield {
            "kind": kind,
            "name": name,
            "created_at": moment(created_at),
            "last_used_at": moment(last_used_at),
        }


def _grants(tx: Transaction, user: User, now: Instant) -> Iterable[Said]:
    for grant in tx.grants.live_of_user(user.uid, now, MOST_GRANTS):
        apis, uses = tx.apis.of_scopes(grant.scope), tx.scope_uses.of_grant(grant.id)
        last = {use.scope: moment(use.last_used_at) for use in uses}
        yield {
            "client_id": grant.client_id,
            "app": _name(tx, grant.client_id),
            **scope_record(grant.scope, apis),
            "last_used": {name: at for name, at in last.items() if not unqualified(name)[0]},
            "last_used_at_apis": {
                api.identifier: {
                    name: last[api.qualified(name)]
                    for name in ("", *api.scopes)
                    if api.qualified(name) in last
                }
                for api in apis
            },
            "created_at": moment(grant.created_at),
            "last_active_at": moment(grant.last_used_at),
            "expires_at": moment(grant.expires_at),
        }


def _event(event: EventRecord) -> Said:
    data = msgspec.json.decode(event.data, type=dict[str, object])
    # Exported without the names of administrators, and where they work.
    by_others = is_other_actor(event.done_by, event.uid)
    origin = None if by_others else event.origin
    origin_fields = (
        {} if origin is None else {"ip_address": origin.address, "browser": origin.shown_browser}
    )
    return {
        "at": moment(event.at),
        "name": event.name,
        "by_somebody_else": by_others,
        **origin_fields,
        **{name: value for name, value in data.items() if name != "uid"},
    }


def _name(tx: Transaction, client_id: str) -> str:
    client = tx.clients.find(client_id)
    return client_id if client is None else client.name or client_id


def moment(at: Instant | None) -> str | None:
    """Return a time in UTC (RFC 3339)."""
    return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
