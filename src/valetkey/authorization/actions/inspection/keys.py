"""Checks of signing keys, of the keyring, and of the credential between the servers."""

from collections.abc import Iterable

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Level,
    Site,
    day,
)
from valetkey.authorization.actions.records import credential_in_file
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.client import RESOURCE_SERVER
from valetkey.authorization.model.signing_key import KeyState, SigningKeyRecord
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.signing_keys import place
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.secret import same
from valetkey.kernel.words import translatable

_PAGE = "how-to/operate/rotate-keys"
_CONSOLE = ADDRESSES["admin_keys"]

KEYRING = Condition(
    "keyring",
    Level.ERROR,
    "keyring",
    translatable("The keyring decrypts only %(opened)s of %(count)s signing keys."),
    translatable("Restore the keyring that belongs to this database:"),
    "valetkey key restore FILE",
    page=_PAGE,
)
FIRST_KEYS = Condition(
    "first_keys",
    Level.WARNING,
    "signing keys",
    translatable("No signing keys yet: the server creates them when it starts for the first time."),
    translatable("Start the server:"),
    "valetkey serve",
    page=_PAGE,
)
NO_KEY = Condition(
    "no_key",
    Level.ERROR,
    "signing keys %(algorithm)s",
    translatable("No active signing key for %(algorithm)s."),
    translatable("Restart the server and look at its log: it creates the first key."),
    page=_PAGE,
    console=_CONSOLE,
)
NO_NEXT_KEY = Condition(
    "no_next_key",
    Level.WARNING,
    "signing keys %(algorithm)s",
    translatable("The next key for %(algorithm)s is not published yet."),
    translatable("A running server creates it within a minute."),
    page=_PAGE,
    console=_CONSOLE,
)
KEYS_GOOD = Condition(
    "keys_good",
    Level.OK,
    "signing keys %(algorithm)s",
    "One is active; the next is used from %(day)s.",
)
CREDENTIAL_ABSENT = Condition(
    "credential_absent",
    Level.WARNING,
    "credential",
    translatable("The credential of the resource server is not on this machine."),
    translatable("Check that the resource server has it."),
    page=_PAGE,
)
CREDENTIAL_WRONG = Condition(
    "credential_wrong",
    Level.ERROR,
    "credential",
    translatable("The authorization server does not accept the resource server's credential."),
    translatable("Restart the authorization server, then the resource server."),
    page=_PAGE,
)
CREDENTIAL_GOOD = Condition(
    "credential_good",
    Level.OK,
    "credential",
    "The authorization server accepts it.",
)


def count_opened(records: Iterable[SigningKeyRecord], keyring: Keyring) -> int:
    """Return how many signing keys the keyring decrypts."""
    return sum(keyring.sealer.open(each.sealed, place(each.kid)) is not None for each in records)


def signing_keys(tx: Transaction, site: Site) -> Findings:
    """Check for each algorithm that a key signs and that the next one is published."""
    records = tuple(tx.signing_keys.all(site.now))
    if (opened := count_opened(records, site.keyring)) < len(records):
        yield KEYRING.found(opened=opened, count=len(records))
    if not records:
        yield FIRST_KEYS.found()
        return
    for algorithm in site.settings.tokens.signing_algorithms:
        states = {each.state(site.now): each for each in records if each.algorithm == algorithm}
        following = states.get(KeyState.NEXT)
        if KeyState.CURRENT not in states:
            yield NO_KEY.found(algorithm=algorithm.value)
        elif following is None:
            yield NO_NEXT_KEY.found(algorithm=algorithm.value)
        else:
            yield KEYS_GOOD.found(algorithm=algorithm.value, day=day(following.activates_at))


def credential(tx: Transaction, site: Site) -> Findings:
    """Check that the resource server's credential is the one that is registered."""
    client = tx.clients.find(RESOURCE_SERVER)
    if client is None or not site.settings.resource.enabled:
        return
    secret = credential_in_file(site.settings) or site.settings.resource.credential_text
    if secret is None:
        yield CREDENTIAL_ABSENT.found()
        return
    print_ = site.keyring.fingerprint_key.of(secret_purpose(client.id), secret.reveal())
    known = any(same(each.fingerprint, print_) for each in client.live_secrets(site.now))
    is_accepted = known and client.disabled_at is None
    yield (CREDENTIAL_GOOD if is_accepted else CREDENTIAL_WRONG).found()


CHECKS = (
    DatabaseCheck(
        "signing_keys", signing_keys, (KEYRING, FIRST_KEYS, NO_KEY, NO_NEXT_KEY, KEYS_GOOD)
    ),
    DatabaseCheck("credential", credential, (CREDENTIAL_ABSENT, CREDENTIAL_WRONG, CREDENTIAL_GOOD)),
)
