"""Check signing keys, the credential between the servers, clients and usernames."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

from valetkey.authorization.actions.account.usernames import username_fault
from valetkey.authorization.actions.admin.resolve import summary
from valetkey.authorization.client_authentication.client_secret import secret_purpose
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client, GrantTypeName
from valetkey.authorization.model.server.signing_key import KeyState, SigningKeyRecord
from valetkey.authorization.storage.register.clients import QuerySighting
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.cli.register import clients, keys
from valetkey.cli.register.keeper import every_client
from valetkey.cli.register.moments import shown, shown_day
from valetkey.cli.register.store import Opened, is_begun, with_store
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.secret import same
from valetkey.kernel.url import answer_parameters

_PAGE = 500
_AUDIT_BEHIND = 1_800
_FAILING = 60
_MOST_NAMED = 20


async def register(settings: Settings) -> AsyncIterator[Finding]:
    """Perform the checks that need the authorization server's database."""
    try:
        if not is_begun(settings, settings.authorization):
            return
        found = await asyncio.to_thread(with_store, settings, _examine)
    except (DatabaseUnavailable, Mistake) as reason:
        yield bad("keys", str(reason))
        return
    for finding in found:
        yield finding


async def _examine(opened: Opened) -> list[Finding]:
    found: list[Finding] = []
    opening, count = await keys.opens_all(opened)
    if opening < count:
        found.append(
            bad(
                "keyring",
                f"it opens {opening} of {count} signing keys",
                "Put the right one back: valetkey key restore FILE",
            )
        )
    records = await opened.store.scan(lambda tx: tuple(tx.signing_keys.all(opened.now)))
    for algorithm in opened.settings.tokens.signing_algorithms:
        kept = [record for record in records if record.algorithm == algorithm]
        found += _signing_keys(algorithm, kept, opened.now)
    found += await _credential(opened)
    sighted = await opened.store.scan(_with_sightings)
    found += [finding for client, seen in sighted for finding in _client(client, seen)]
    found += await opened.store.scan(partial(_audit, opened))
    found += await opened.store.scan(partial(_webhooks, opened.now))
    return found + await _usernames(opened)


def _audit(opened: Opened, tx: Transaction) -> list[Finding]:
    """Report events that wait for the hash chain, and destinations that are behind."""
    found: list[Finding] = []
    oldest = tx.audit_chain.oldest_waiting()
    if oldest is not None and opened.now - oldest > _AUDIT_BEHIND:
        said = f"events since {shown(oldest)} are not in the hash chain"
        found.append(mind("audit log", said, "Start the server, and look for background.failed."))
    for name in opened.settings.audit.export:
        since = tx.audit_exports.waiting_since().get(name)
        if since is not None and opened.now - since > _AUDIT_BEHIND:
            said = f"it lacks events since {shown(since)}"
            found.append(
                bad(
                    f"audit export {name}",
                    said,
                    "For the reason, see audit.not_exported in the log.",
                )
            )
    return found


def _webhooks(now: Instant, tx: Transaction) -> list[Finding]:
    """Report the operator's webhooks whose receivers fail, or that were disabled therefore."""
    found: list[Finding] = []
    for each in tx.webhooks.of_operator():
        about = f"webhook {each.id}"
        if each.failing_since is None:
            continue
        last = next((it.outcome for it in tx.webhooks.attempts(each.id, 1)), "nothing")
        waiting = f"{tx.webhooks.waiting(each.id)} messages wait"
        host = urlsplit(each.url).hostname
        said = f"{host} has failed since {shown(each.failing_since)}, last with {last}; {waiting}"
        if each.is_fault:
            said = f"disabled as {each.disabled_because}: {said}"
            advice = f"Fix the receiver, then: valetkey webhook enable {each.id}"
        else:
            advice = f"Its responses: valetkey webhook attempts {each.id}"
        judged = bad if each.is_fault or now - each.failing_since > _FAILING else mind
        found.append(judged(about, said, advice))
    return found


async def _usernames(opened: Opened) -> list[Finding]:
    """Report usernames that could be taken for a uid, an id or the operator; they keep working."""
    brand, last, found = (opened.settings.brand.name,), 0, list[User]()
    while users := await opened.store.scan(lambda tx, last=last: tx.users.page(last, _PAGE)):  # type: ignore[misc]
        last = users[-1].uid
        # A deleted account has no email address.
        found += [each for each in users if each.email and username_fault(each.username, brand)]
        if len(found) >= _MOST_NAMED:
            break
    return [
        mind(
            f"user {summary(user)}",
            f"this username could not be given today: {username_fault(user.username, brand)}",
            f"Another: valetkey user change uid:{user.uid} --username NAME",
        )
        for user in found[:_MOST_NAMED]
    ]


def _signing_keys(
    algorithm: Algorithm, records: Sequence[SigningKeyRecord], now: Instant
) -> Iterator[Finding]:
    about = f"signing keys {algorithm}"
    states = {record.state(now): record for record in records}
    current, following = states.get(KeyState.CURRENT), states.get(KeyState.NEXT)
    if current is None:
        yield bad(about, "none signs", "Next: valetkey serve, which makes the first")
        return
    if following is None:
        yield mind(about, "the next is not published yet", "A running server makes it.")
        return
    yield good(about, f"one signs, the next does from {shown_day(following.activates_at)}")


async def _credential(opened: Opened) -> list[Finding]:
    secret = keys.credential_in_file(opened.settings) or opened.settings.resource.credential_text
    client = await opened.store.read(lambda tx: tx.clients.find(RESOURCE_SERVER))
    if client is None:
        return []
    if secret is None:
        return [mind("credential", "not on this machine", "Is it with the resource server?")]
    print_ = opened.keyring.fingerprint_key.of(secret_purpose(client.id), secret.reveal())
    known = any(same(each.fingerprint, print_) for each in client.live_secrets(opened.now))
    if known and client.disabled_at is None:
        return [good("credential", "the authorization server knows the resource server by it")]
    return [
        bad(
            "credential",
            "the authorization server does not accept it",
            "Restart the authorization server, then the resource server.",
        )
    ]


def _with_sightings(tx: Transaction) -> list[tuple[Client, QuerySighting | None]]:
    return [(client, tx.clients.query_sighting(client.id)) for client in every_client(tx)]


def _client(client: Client, sighting: QuerySighting | None) -> Iterator[Finding]:
    if client.disabled_at is not None:
        return
    about = f"client {client.id}"
    for grant_type in (GrantTypeName.IMPLICIT, GrantTypeName.PASSWORD):
        if client.may_use(grant_type):
            off = f"Off: valetkey client allow-{grant_type} {client.id} --off"
            yield mind(about, clients.COSTS[grant_type], off)
    for uri in client.redirect_uris:
        if taken := answer_parameters(uri):
            yield mind(
                about,
                f"its redirect URI {uri} has {', '.join(taken)}, which answers bring again",
                f"Register it without: valetkey client change {client.id}",
            )
    if sighting is not None:
        times = "once" if sighting.requests == 1 else f"{sighting.requests} times"
        yield mind(
            about,
            f"its secret came in a URL {times}, last {shown(sighting.last_seen_at)}",
            f"When it no longer does so: valetkey client secret {client.id}",
        )
