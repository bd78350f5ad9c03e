"""Checks of administrator accounts, and of clients with risky settings."""

from collections.abc import Iterable

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Level,
    Site,
    moment,
)
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.url import answer_parameters
from valetkey.kernel.words import translatable

_MOST_CLIENTS = 10_000
_AT_ONCE = 500
_MOST_NAMED = 20
_TEAM = "how-to/operate/run-it-with-a-team"
_CLIENTS = "reference/clients"
_APP = f"{ADDRESSES['admin_clients']}/%(client)s"

ONE_OWNER = Condition(
    "one_owner",
    Level.WARNING,
    "owners",
    translatable("There is only one owner."),
    translatable("Add a second one to avoid being locked out."),
    page=_TEAM,
    console=ADDRESSES["admin_roles"],
)
UNPROTECTED = Condition(
    "unprotected",
    Level.WARNING,
    "roles",
    translatable("Users with a role and without a second factor: %(count)s."),
    translatable("Ask them to add a passkey."),
    page=_TEAM,
    console=ADDRESSES["admin_roles"],
)
SECRET_IN_URL = Condition(
    "secret_in_url",
    Level.WARNING,
    "client %(client)s",
    translatable(
        "The app %(client)s sent its secret in a URL, which logs may record. Requests: %(times)s, "
        "the last at %(at)s."
    ),
    translatable("When it no longer does so, issue a new secret."),
    "valetkey client secret %(client)s",
    page="how-to/operate/run-behind-a-proxy",
    console=_APP,
)
IMPLICIT = Condition(
    "implicit",
    Level.WARNING,
    "client %(client)s",
    translatable(
        "The app %(client)s may use the implicit grant: access tokens are in the address of a "
        "page, where history and scripts can read them."
    ),
    translatable("Disable it if the app can use the authorization code grant with PKCE instead."),
    "valetkey client allow-implicit %(client)s --off",
    page=_CLIENTS,
    console=_APP,
)
PASSWORD = Condition(
    "password",
    Level.WARNING,
    "client %(client)s",
    translatable(
        "The app %(client)s may use the password grant: users type their password into the app, "
        "without consent and without a second factor."
    ),
    translatable("Disable it, unless this is your own app and has no alternative."),
    "valetkey client allow-password %(client)s --off",
    page=_CLIENTS,
    console=_APP,
)
REDIRECT_URI = Condition(
    "redirect_uri",
    Level.WARNING,
    "client %(client)s",
    translatable(
        "The redirect URI %(uri)s of the app %(client)s has parameters that responses have too: "
        "%(names)s."
    ),
    translatable("Register it without these."),
    "valetkey client change %(client)s",
    page=_CLIENTS,
    console=_APP,
)
MORE = Condition(
    "more",
    Level.WARNING,
    "clients",
    translatable("There are more findings about apps."),
    translatable("Fix those that are shown first."),
)


def holders(tx: Transaction, site: Site) -> Findings:
    """Check owners, and that those with a role have a second factor."""
    found = [each for each in site.roles.holders(tx) if each.user.disabled_at is None]
    if sum(each.user.role is Role.OWNER for each in found) == 1:
        yield ONE_OWNER.found()
    if unprotected := sum(not each.protected for each in found):
        yield UNPROTECTED.found(count=unprotected)


def clients(tx: Transaction, _: Site) -> Findings:
    """Check the first 10,000 clients for settings with a risk; name at most 20."""
    sighted = tx.clients.query_credential_uses(_MOST_NAMED + 1)
    found = [
        SECRET_IN_URL.found(client=client, times=seen.requests, at=moment(seen.last_seen_at))
        for client, seen in sighted
    ]
    last = ""
    for _page in range(_MOST_CLIENTS // _AT_ONCE):
        page = tx.clients.page(last, _AT_ONCE)
        for client in page:
            found += _risks(client)
        if len(page) < _AT_ONCE or len(found) > _MOST_NAMED:
            break
        last = page[-1].id
    yield from found[:_MOST_NAMED]
    if len(found) > _MOST_NAMED:
        yield MORE.found()


def _risks(client: Client) -> Iterable[Finding]:
    if client.disabled_at is not None:
        return
    if client.may_use(GrantTypeName.IMPLICIT):
        yield IMPLICIT.found(client=client.id)
    if client.may_use(GrantTypeName.PASSWORD):
        yield PASSWORD.found(client=client.id)
    for uri in client.redirect_uris:
        if taken := answer_parameters(uri):
            yield REDIRECT_URI.found(client=client.id, uri=uri, names=", ".join(taken))


CHECKS = (
    DatabaseCheck("holders", holders, (ONE_OWNER, UNPROTECTED)),
    DatabaseCheck("clients", clients, (SECRET_IN_URL, IMPLICIT, PASSWORD, REDIRECT_URI, MORE)),
)
