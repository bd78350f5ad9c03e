"""What a full database holds: every row is a copy of one that the server wrote.

Only what tells rows apart is made anew, by the database itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

DAY = 86_400

Columns = Mapping[str, str]
"""The columns that a copy has anew: an expression of `i`, its number, and of `t`, the original."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to be."""

    grants: int
    users: int
    clients: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two engines spell differently.

    `fingerprint` is an expression for 43 letters by chance, `chance` for 22; `padded` writes a
    number with 22 digits, `hexed` a text in hexadecimal digits.
    """

    fingerprint: str
    chance: str
    padded: Callable[[str], str]
    hexed: Callable[[str], str]

    @property
    def id(self) -> str:
        """An id of the kind that the original has."""
        return f"substr(t.id, 1, 3) || {self.chance}"


@dataclass(frozen=True, slots=True)
class Copies:
    """So many of one table's rows.

    `of` is the condition that finds the original; "" where every column is made anew.
    """

    table: str
    of: str
    count: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class Expiring:
    """A table that is swept: `late` seconds after a row has expired it is deleted."""

    table: str
    late: int
    columns: Columns


def expiring(speaks: Dialect) -> tuple[Expiring, ...]:
    """The tables of which rows expire as people and apps go about their day."""
    return (
        Expiring("vouchers", 3_600, {"fingerprint": speaks.fingerprint}),
        Expiring("access_tokens", 0, {"fingerprint": speaks.fingerprint, "id": speaks.id}),
        Expiring("grants", 3 * DAY, {"id": speaks.id, "refresh_print": speaks.fingerprint}),
        Expiring("sessions", 0, {"id": speaks.id, "fingerprint": speaks.fingerprint}),
    )


def plan(size: Size, now: int, speaks: Dialect) -> Iterator[Copies]:
    """Everything that many grants, users and clients leave in the database until `now`."""
    users, clients = max(1, size.users), max(1, size.clients)
    user = f"(i % {users})"
    of_client = f"'client-' || (({user} * 7 + i / {users}) % {clients})"
    owned = {"uid": _uid(user), "client_id": of_client}
    past = f"{now} - {170 * DAY} + i * {169 * DAY} / {max(1, size.grants)}"
    yield from _people(size, speaks)
    yield Copies("clients", "id = 'phone'", size.clients, {"id": "'client-' || i"})
    secret = {"id": speaks.id, "client_id": "'client-' || i", "fingerprint": speaks.fingerprint}
    yield Copies("client_secrets", "1 = 1", size.clients, secret)
    yield Copies("consents", "1 = 1", size.grants, owned)
    dated = {"created_at": past, "last_used_at": past, "expires_at": f"{past} + {180 * DAY}"}
    session = {"session_id": f"'se_' || {speaks.padded(user)}"}
    identifiers = {"id": speaks.id, "refresh_print": speaks.fingerprint}
    yield Copies("grants", "1 = 1", size.grants, {**owned, **dated, **session, **identifiers})
    yield Copies("events", "uid IS NOT NULL", size.grants, {"id": speaks.id, **owned, "at": past})
    # Who stayed away for longer has been forgotten.
    lately = {"last_day": f"{now // DAY} - (i % 80)"}
    yield Copies("usage_people", "", size.grants, {**owned, **lately})
    later = {"expires_at": f"{now + DAY}"}
    token = {"fingerprint": speaks.fingerprint, "id": speaks.id, **later}
    yield Copies("access_tokens", "1 = 1", size.grants // 10, token)
    code = {"fingerprint": speaks.fingerprint, **later}
    yield Copies("vouchers", "1 = 1", size.grants // 100, code)


def settle(now: int) -> tuple[str, ...]:
    """Statements that say of the copies what the server has done with rows that old.

    Events are counted and people can be found: it would else begin with both as it starts.
    """
    return (
        f"UPDATE usage_cursor SET at = {now}, event_id = '' WHERE name = 'events'",
        "UPDATE turns SET taken = (SELECT max(uid) FROM users) WHERE name = 'word_parts'",
    )


def _people(size: Size, speaks: Dialect) -> Iterator[Copies]:
    uid = {"uid": _uid("i")}
    name, mail = "'user' || i", "'user' || i || '@example.com'"
    names = {"username": name, "username_key": name, "email": mail, "email_key": mail}
    yield Copies("uids", "1 = 1", size.users, uid)
    yield Copies("users", "1 = 1", size.users, {**uid, **names})
    for word in (name, mail, "'example.com'"):
        yield Copies("people_words", "", size.users, {**uid, "word": speaks.hexed(word)})
    password = {"id": speaks.id, **uid}
    yield Copies("credentials", "kind = 'password'", size.users, password)
    session = f"'se_' || {speaks.padded('i')}"
    signed_in = {"id": session, "fingerprint": speaks.fingerprint, **uid}
    yield Copies("sessions", "1 = 1", size.users, signed_in)
    app = {"session_id": session, "client_id": f"'client-' || (i % {max(1, size.clients)})"}
    yield Copies("participants", "1 = 1", size.users if size.clients else 0, app)


def _uid(number: str) -> str:
    """A uid that does not tell how many there are, as the server's do not."""
    return f"({number} * 9007199254 + 1)"
