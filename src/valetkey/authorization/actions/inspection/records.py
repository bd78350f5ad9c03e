"""Checks of what the server keeps: accounts, clients and keys."""

from collections.abc import Iterable

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.inspection.check import (
    KEYS,
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Installation,
    Level,
    RemedyButton,
    day,
    moment,
)
from valetkey.authorization.actions.records import credential_in_file
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, GrantTypeName
from valetkey.authorization.model.user import Role
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.storage.signing_keys import KeyState, SigningKeyRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.signing_keys import binding
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.secret import same
from valetkey.kernel.text import translatable
from valetkey.kernel.url import answer_parameters

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
    remedy=RemedyButton(translatable("Add a second owner"), Permission.ROLES),
)
UNPROTECTED = Condition(
    "unprotected",
    Level.WARNING,
    "roles",
    translatable("Users with a role and without a second factor: %(count)s."),
    translatable("Ask them to add a passkey."),
    page=_TEAM,
    console=ADDRESSES["admin_roles"],
    remedy=RemedyButton(translatable("Show these users")),
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
    remedy=RemedyButton(translatable("Issue a new secret"), Permission.CLIENTS, "secret"),
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
    remedy=RemedyButton(translatable("Disable implicit grant"), Permission.CLIENTS, "end-implicit"),
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
    remedy=RemedyButton(translatable("Disable password grant"), Permission.CLIENTS, "end-password"),
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
    remedy=RemedyButton(translatable("Change the redirect URIs"), Permission.CLIENTS, "edit"),
)
MORE = Condition(
    "more",
    Level.WARNING,
    "clients",
    translatable("There are more findings about apps."),
    translatable("Fix those that are shown first."),
    console=ADDRESSES["admin_clients"],
    remedy=RemedyButton(translatable("Show all apps")),
)


def holders(tx: Transaction, installation: Installation) -> Findings:
    """Check owners, and that those with a role have a second factor."""
    active_holders = [
        holder for holder in installation.roles.holders(tx) if holder.user.disabled_at is None
    ]
    if sum(holder.user.role is Role.OWNER for holder in active_holders) == 1:
        yield ONE_OWNER.finding()
    if unprotected := sum(not holder.protected for holder in active_holders):
        yield UNPROTECTED.finding(count=unprotected)


def clients(tx: Transaction, _: Installation) -> Findings:
    """Check the first 10,000 clients for settings with a risk; name at most 20."""
    sighted = tx.clients.query_credential_uses(_MOST_NAMED + 1)
    findings = [
        SECRET_IN_URL.finding(client=client, times=seen.requests, at=moment(seen.last_seen_at))
        for client, seen in sighted
    ]
    last = ""
    for _page in range(_MOST_CLIENTS // _AT_ONCE):
        page = tx.clients.page(last, _AT_ONCE)
        for client in page:
            findings += _risks(client)
        if len(page) < _AT_ONCE or len(findings) > _MOST_NAMED:
            break
        last = page[-1].id
    yield from findings[:_MOST_NAMED]
    if len(findings) > _MOST_NAMED:
        yield MORE.finding()


def _risks(client: Client) -> Iterable[Finding]:
    if client.disabled_at is not None:
        return
    if client.may_use(GrantTypeName.IMPLICIT):
        yield IMPLICIT.finding(client=client.id)
    if client.may_use(GrantTypeName.PASSWORD):
        yield PASSWORD.finding(client=client.id)
    for uri in client.redirect_uris:
        if taken := answer_parameters(uri):
            yield REDIRECT_URI.finding(client=client.id, uri=uri, names=", ".join(taken))


ACCOUNT_CHECKS = (
    DatabaseCheck("holders", holders, (ONE_OWNER, UNPROTECTED)),
    DatabaseCheck("clients", clients, (SECRET_IN_URL, IMPLICIT, PASSWORD, REDIRECT_URI, MORE)),
)


_KEYS_PAGE = "how-to/operate/rotate-keys"
_KEYS_CONSOLE = ADDRESSES["admin_keys"]

KEYRING = Condition(
    "keyring",
    Level.ERROR,
    "keyring",
    translatable("The keyring decrypts only %(opened)s of %(count)s signing keys."),
    translatable("Restore the keyring that belongs to this database:"),
    "valetkey key restore FILE",
    page=_KEYS_PAGE,
)
FIRST_KEYS = Condition(
    "first_keys",
    Level.WARNING,
    "signing keys",
    translatable("No signing keys yet: the server creates them when it starts for the first time."),
    translatable("Start the server:"),
    "valetkey serve",
    page=_KEYS_PAGE,
)
NO_KEY = Condition(
    "no_key",
    Level.ERROR,
    "signing keys %(algorithm)s",
    translatable("No active signing key for %(algorithm)s."),
    translatable("Restart the server and look at its log: it creates the first key."),
    page=_KEYS_PAGE,
    console=_KEYS_CONSOLE,
    remedy=RemedyButton(translatable("Rotate the keys"), Permission.KEYS, "rotate"),
)
NO_NEXT_KEY = Condition(
    "no_next_key",
    Level.WARNING,
    "signing keys %(algorithm)s",
    translatable("The next key for %(algorithm)s is not published yet."),
    translatable("A running server creates it within a minute."),
    page=_KEYS_PAGE,
    console=_KEYS_CONSOLE,
    remedy=RemedyButton(translatable("Show the keys")),
)
KEYS_GOOD = Condition(
    "keys_good",
    Level.OK,
    "signing keys %(algorithm)s",
    translatable("One %(algorithm)s key is active; the next is used from %(day)s."),
)
CREDENTIAL_ABSENT = Condition(
    "credential_absent",
    Level.WARNING,
    "credential",
    translatable("The credential of the resource server is not on this machine."),
    translatable("Check that the resource server has it."),
    page=_KEYS_PAGE,
)
CREDENTIAL_WRONG = Condition(
    "credential_wrong",
    Level.ERROR,
    "credential",
    translatable("The authorization server does not accept the resource server's credential."),
    translatable("Restart the authorization server, then the resource server."),
    page=_KEYS_PAGE,
)
CREDENTIAL_GOOD = Condition(
    "credential_good",
    Level.OK,
    "credential",
    translatable("The resource server's credential is accepted."),
)


def count_opened(records: Iterable[SigningKeyRecord], keyring: Keyring) -> int:
    """Return how many signing keys the keyring decrypts."""
    return sum(
        keyring.sealer.open(record.sealed, binding(record.kid)) is not None for record in records
    )


def signing_keys(tx: Transaction, installation: Installation) -> Findings:
    """Check for each algorithm that a key signs and that the next one is published."""
    records = tuple(tx.signing_keys.all(installation.now))
    if (opened := count_opened(records, installation.keyring)) < len(records):
        yield KEYRING.finding(opened=opened, count=len(records))
    if not records:
        yield FIRST_KEYS.finding()
        return
    for algorithm in installation.settings.tokens.signing_algorithms:
        states = {
            record.state(installation.now): record
            for record in records
            if record.algorithm == algorithm
        }
        following = states.get(KeyState.NEXT)
        if KeyState.CURRENT not in states:
            yield NO_KEY.finding(algorithm=algorithm.value)
        elif following is None:
            yield NO_NEXT_KEY.finding(algorithm=algorithm.value)
        else:
            yield KEYS_GOOD.finding(algorithm=algorithm.value, day=day(following.activates_at))


def credential(tx: Transaction, installation: Installation) -> Findings:
    """Check that the resource server's credential is the one that is registered."""
    client = tx.clients.find(RESOURCE_SERVER)
    if client is None or not installation.settings.resource.enabled:
        return
    secret = (
        credential_in_file(installation.settings) or installation.settings.resource.credential_text
    )
    if secret is None:
        yield CREDENTIAL_ABSENT.finding()
        return
    print_ = installation.keyring.fingerprint_key.fingerprint(
        secret_purpose(client.id), secret.reveal()
    )
    is_registered = any(
        same(live_secret.fingerprint, print_)
        for live_secret in client.live_secrets(installation.now)
    )
    is_accepted = is_registered and client.disabled_at is None
    yield (CREDENTIAL_GOOD if is_accepted else CREDENTIAL_WRONG).finding()


KEY_CHECKS = (
    DatabaseCheck(
        "signing_keys", signing_keys, (KEYRING, FIRST_KEYS, NO_KEY, NO_NEXT_KEY, KEYS_GOOD), KEYS
    ),
    DatabaseCheck(
        "credential", credential, (CREDENTIAL_ABSENT, CREDENTIAL_WRONG, CREDENTIAL_GOOD), KEYS
    ),
)
