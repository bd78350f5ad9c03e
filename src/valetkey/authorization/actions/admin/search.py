"""Search and read user accounts and registered clients, for administrators."""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import ConnectedApp, connected_apps
from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, Membership
from valetkey.authorization.model.user import Session, Uid, User, fold, uid_of
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.clients import QueryCredentialUse
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import (
    ClientFilter,
    ClientSearchResult,
    EventFilter,
    ListOrder,
    TimeCursor,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.users import (
    START,
    Filter,
    Order,
    UserCursor,
    prefix_range,
    search_words,
)
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.url import path_segment

RECOVERY_CODE = "recovery_code"

_BATCH = 100
_LOOKED_AT = 2_000
"""Words read for one page: a filter without a match stops there and can be continued."""

_PLACE = re.compile(r"([0-9a-f]{0,80})\.([0-9]{1,16})", re.ASCII)
_END = 1 << 53
_EVENTS = 10
LATEST = TimeCursor(Instant(_END), "")


class Match(Struct, frozen=True):
    """An object that a search found: its page, and what tells it from others of its name.

    A name that is `translatable` is a text of the catalogue, any other one is shown as it is.
    """

    name: str
    url: str
    detail: str = ""
    translatable: bool = False


class SearchKind(Struct, frozen=True):
    """A kind of object that the search of the console finds, for roles with the permission.

    The title is translatable. `find` returns at most as many objects as its last argument, each of
    which matches the text; it reads through an index, or a bounded number of rows. `list_address`
    is the page that lists all objects that match its parameter `q`.
    """

    title: str
    find: Callable[[Transaction, str, int], Sequence[Match]]
    list_address: str
    permission: Permission = Permission.READ


class UserSearchResult(Struct, frozen=True):
    """A page of users, and the cursor of the next one; "" if this is the last."""

    users: Sequence[User]
    more: str


class Factor(Struct, frozen=True):
    """A way to sign in: `password`, `passkey`, `totp` or `recovery_code`, with its count."""

    kind: str
    name: str
    since: Instant
    last_used_at: Instant | None = None
    count: int = 1


class UserDetails(Struct, frozen=True):
    """The data of one user, without password or other credentials."""

    user: User
    factors: Sequence[Factor]
    sessions: Sequence[Session]
    apps: Sequence[ConnectedApp]
    events: Sequence[EventRecord]


def find_users(
    tx: Transaction,
    actor: Actor,
    text: str,
    chosen: Filter,
    after: str,
    limit: int,
    order: Order = Order.NEWEST,
) -> UserSearchResult:
    """Return at most `limit` users with a word that contains `text`, or with that uid.

    Without a text all users, in that order. `after` is the `more` of the page before; raises
    Refused for one that never was, and where the role does not allow it.
    """
    require(tx, actor, Permission.READ)
    return matching_users(tx, text, chosen, after, limit, order)


def matching_users(
    tx: Transaction,
    text: str,
    chosen: Filter = Filter.ALL,
    after: str = "",
    limit: int = 1,
    order: Order = Order.NEWEST,
) -> UserSearchResult:
    """Return what `find_users` does, for a caller that has checked the permission."""
    cursor = _parse(after)
    text = text.strip()
    if not text:
        if order is Order.NEWEST:
            return _newest(tx, chosen, cursor, limit)
        return _ordered(tx, chosen, order, cursor or START, limit)
    result = _search(tx, text, chosen, cursor, limit)
    user = None if after else _by_uid(tx, text)
    if user is not None and not is_gone(user) and chosen.fits(user):
        others = [other for other in result.users if other.uid != user.uid]
        return UserSearchResult((user, *others), result.more)
    return result


def count_users(tx: Transaction, text: str, chosen: Filter, most: int) -> int | None:
    """Count the users that `find_users` finds, up to `most`; None where that takes too long."""
    if not (text := text.strip()):
        return tx.user_directory.count_matching(chosen, most)
    if chosen is not Filter.ALL or uid_of(text) is not None:
        return None
    rows = tx.user_directory.find(text, START, most)
    users = len({uid for _, uid in rows})
    return most if len(rows) == most else users


def user_details(
    tx: Transaction, actor: Actor, uid: Uid, idle: Lifetime, now: Instant
) -> UserDetails:
    """Return the data of one user. Raises Refused (not found, forbidden)."""
    require(tx, actor, Permission.READ)
    user = tx.users.find(uid)
    if user is None or is_gone(user):
        raise Refused.because(ErrorCode.NOT_FOUND, "this user does not exist", "admin.user")
    sessions = tx.sessions.active_of(uid, Instant(now - idle), now)
    return UserDetails(
        user,
        _factors(tx, uid),
        sorted(sessions, key=lambda session: -session.last_seen_at),
        connected_apps(tx, uid, now),
        tx.event_search.page(EventFilter(uid=uid), LATEST, _EVENTS),
    )


def is_gone(user: User) -> bool:
    """Return whether the user was removed, so that only the uid is left."""
    return not user.email


def _newest(
    tx: Transaction, chosen: Filter, cursor: UserCursor | None, limit: int
) -> UserSearchResult:
    if cursor is None:
        cursor = UserCursor(str(_END), 0)
    if not cursor.word.isdecimal():
        raise _foreign()
    before, before_uid = Instant(int(cursor.word[:16])), cursor.uid
    uids = tx.user_directory.newest(chosen, before, before_uid, limit + 1)
    users = [user for uid in uids[:limit] if (user := tx.users.find(uid)) is not None]
    more = f"{users[-1].created_at}.{users[-1].uid}" if len(uids) > limit and users else ""
    return UserSearchResult([user for user in users if not is_gone(user)], more)


def _ordered(
    tx: Transaction, chosen: Filter, order: Order, cursor: UserCursor, limit: int
) -> UserSearchResult:
    users: list[User] = []
    looked = 0
    while looked < _LOOKED_AT:
        rows = _after(tx, order, cursor)
        for row in rows:
            user = tx.users.find(Uid(row.uid))
            if user is not None and not is_gone(user) and chosen.fits(user):
                if len(users) == limit:
                    return UserSearchResult(users, f"{cursor.word}.{cursor.uid}")
                users.append(user)
            cursor = row
        looked += len(rows)
        if len(rows) < _BATCH:
            return UserSearchResult(users, "")
    return UserSearchResult(users, f"{cursor.word}.{cursor.uid}")


def _after(tx: Transaction, order: Order, cursor: UserCursor) -> Sequence[UserCursor]:
    if order is Order.OLDEST:
        if cursor.word and not cursor.word.isdecimal():
            raise _foreign()
        at = Instant(int(cursor.word[:16] or "0"))
        rows = tx.user_directory.oldest(at, cursor.uid, _BATCH)
        return [UserCursor(str(created), uid) for created, uid in rows]
    # By its uid: a username may be longer than a cursor.
    last = tx.users.find(Uid(cursor.uid)) if cursor.uid else None
    if cursor.uid and (last is None or is_gone(last)):
        raise _foreign()
    key = "" if last is None else fold(last.username)
    directory = tx.user_directory
    descending = order is Order.USERNAME_DESCENDING
    read = directory.by_username_descending if descending else directory.by_username
    return [UserCursor("", uid) for _, uid in read(key, _BATCH)]


def _search(
    tx: Transaction, text: str, chosen: Filter, cursor: UserCursor | None, limit: int
) -> UserSearchResult:
    start, end = prefix_range(text)
    cursor = cursor or START
    users: list[User] = []
    looked = 0
    while looked < _LOOKED_AT:
        rows = tx.user_directory.find(text, cursor, _BATCH)
        for word, uid in rows:
            user = tx.users.find(uid)
            if user is not None and chosen.fits(user) and _first(user, start, end) == word:
                if len(users) == limit:
                    return UserSearchResult(users, f"{cursor.word}.{cursor.uid}")
                users.append(user)
            cursor = UserCursor(word, uid)
        looked += len(rows)
        if len(rows) < _BATCH:
            return UserSearchResult(users, "")
    return UserSearchResult(users, f"{cursor.word}.{cursor.uid}")


def _first(user: User, start: str, end: str) -> str:
    # A user who matches by several words is listed once, by the first of them.
    words = search_words(user.username, user.email, user.name)
    return next((word for word in words if start <= word < end), "")


def _parse(after: str) -> UserCursor | None:
    if not after:
        return None
    match = _PLACE.fullmatch(after)
    if match is None or int(match[2]) > _END:
        raise _foreign()
    return UserCursor(match[1], int(match[2]))


def _foreign() -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST, "this address was not one of ours; search again", "admin.place"
    )


def _factors(tx: Transaction, uid: Uid) -> Sequence[Factor]:
    factors: dict[str, Factor] = {}
    for index, (kind, name, since, last_used_at) in enumerate(tx.user_directory.factors_of(uid)):
        # Only the number of unused recovery codes is shown.
        factor = factors.get(kind) if kind == RECOVERY_CODE else None
        count = 1 if factor is None else factor.count + 1
        key = kind if kind == RECOVERY_CODE else f"{kind} {index}"
        factors[key] = Factor(kind, name, since, last_used_at, count)
    return list(factors.values())


_LONGEST = 320


def resolve_users(tx: Transaction, text: str) -> Sequence[User]:
    """Return every user that this text can mean, except removed ones; several are ambiguous.

    A bare word can be a username, an email address or a uid.
    """
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        return ()
    candidates: tuple[User | None, ...]
    kind, _, rest = text.partition(":")
    match kind if rest else "":
        case "uid":
            candidates = (_by_uid(tx, rest),)
        case "name":
            candidates = (tx.users.find_by_username(rest),)
        case "email":
            candidates = (tx.users.find_by_email(rest),)
        case _:
            candidates = (
                tx.users.find_by_username(text),
                tx.users.find_by_email(text),
                _by_uid(tx, text),
            )
    users = {user.uid: user for user in candidates if user is not None}
    return [user for uid, user in users.items() if not tx.account_removals.is_done(uid)]


def summary(user: User) -> str:
    """Return uid, username, email address and name, for telling users apart."""
    name = f', "{user.name}"' if user.name else ""
    return f"uid:{user.uid} name:{user.username} email:{user.email}{name}"


def _by_uid(tx: Transaction, text: str) -> User | None:
    uid = uid_of(text)
    return None if uid is None else tx.users.find(uid)


Faults = tuple[MetadataError, ...]


class ClientWithUses(Struct, frozen=True):
    """A client with its team and the number of its users and grants."""

    client: Client
    team: tuple[Membership, ...]
    authorizations: int
    people: int
    sighting: QueryCredentialUse | None


def search(
    tx: Transaction,
    actor: Actor,
    criteria: ClientFilter,
    cursor: TimeCursor,
    limit: int,
    order: ListOrder = ListOrder.NEWEST,
) -> ClientSearchResult:
    """Return a page of the clients that match. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.client_search.page(criteria, cursor, limit, order)


def find_details(tx: Transaction, actor: Actor, client_id: str, now: Instant) -> ClientWithUses:
    """Return a client and its use. Raises Refused (forbidden, not found)."""
    require(tx, actor, Permission.READ)
    client = _find(tx, client_id, to_change=False)
    reach = tx.grants.usage_of(client.id, now)
    return ClientWithUses(
        client,
        tuple(tx.members.team(client.id)),
        reach.authorizations,
        reach.people,
        tx.clients.query_credential_use(client.id),
    )


def no_such_client() -> Refused:
    """Return the refusal of a client that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this app does not exist", "admin.client")


def client_to_change(tx: Transaction, client_id: str) -> Client:
    """Return the client, held until the commit.

    Raises Refused: not found; forbidden for this server's own client.
    """
    return _find(tx, client_id, to_change=True)


def _find(tx: Transaction, client_id: str, *, to_change: bool) -> Client:
    # No client has such an id, and PostgreSQL raises an error for NUL.
    if not client_id.isascii() or not client_id.isprintable():
        raise no_such_client()
    client = (tx.clients.find_to_change if to_change else tx.clients.find)(client_id)
    if client is None or tx.client_search.is_gone(client_id):
        raise no_such_client()
    if to_change and tx.apis.find(client_id) is not None:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "this is the credential of an API: change the API instead",
            "admin.api_credential",
        )
    if to_change and client_id == RESOURCE_SERVER:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "the resource server is one of this server's own parts",
            "admin.own_client",
        )
    return client


def named_object(tx: Transaction, subject: str) -> tuple[str, str] | None:
    """Return the name of the object that an event is about, and the address of its page.

    `subject` is that of the event. The address may be "". None if the object is gone, or of a kind
    whose ids are names.
    """
    kind, _, id_ = subject.partition(":")
    if kind == "group":
        group = tx.groups.find_by_id(id_)
        address = ADDRESSES["admin_groups"]
        return None if group is None else (group.name, f"{address}/{path_segment(group.name)}")
    if kind == "token":
        token = tx.api_tokens.find(id_)
        return None if token is None else (token.name, f"{ADDRESSES['admin_tokens']}/{token.id}")
    named = (names.find(tx, id_) for names in tx.hooks.subjects_named if names.kind == kind)
    return next((name_address for name_address in named if name_address is not None), None)
