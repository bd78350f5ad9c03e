"""Fields that name apps, APIs, groups, scopes or events: what a form offers, what a text means."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.search import is_gone
from valetkey.authorization.actions.groups import unknown_group
from valetkey.authorization.model.user import fold
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.storage.search import END, ClientFilter
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.url import canonical

MOST_OFFERED = 200
"""Values that a field offers; others are typed."""

_MOST_USERS = 100
_LONGEST = 500
_APIS_LOOKED_AT = 1_000

Named = tuple[str, str]
"""A value, and its name for people, "" if the value is one."""


class Reference(Struct, frozen=True):
    """The objects that a field names: those it offers, and those that a text can mean.

    A text is a value or a name; several objects can have that name. Without `find` the operation
    judges the text. `kind` begins the codes of faults, which `explain` may replace; `also`
    are words with a meaning of their own.
    """

    offered: Callable[[Transaction], Sequence[Named]]
    find: Callable[[Transaction, str], Sequence[Named]] | None = None
    kind: str = ""
    explain: Callable[[Transaction, str, MetadataError], MetadataError] = lambda _tx, _text, it: it
    also: tuple[str, ...] = ()

    def candidates(self, tx: Transaction, text: str) -> Sequence[Named]:
        """Return what the text can mean."""
        if text in self.also:
            return ((text, ""),)
        fits = self.find is not None and len(text) <= _LONGEST and text.isprintable()
        return self.find(tx, text) if self.find is not None and fits else ()


References = Mapping[str, Reference]
"""The reference of each field that is one."""


class Offered(Struct, frozen=True):
    """The values that a field offers with their names, and the names of those it has."""

    options: Sequence[Named] = ()
    names: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


async def offered(
    store: Store, references: References, texts: Mapping[str, str]
) -> Mapping[str, Offered]:
    """Return what these fields offer; `texts` are their values, one in a line."""

    def read(tx: Transaction) -> Mapping[str, Offered]:
        offers: dict[str, Offered] = {}
        for name, reference in references.items():
            options = reference.offered(tx)[:MOST_OFFERED]
            names = dict(options)
            for line in _lines(texts.get(name, ""))[:MOST_OFFERED]:
                if line not in names:
                    names |= dict(reference.candidates(tx, line))
            words = tuple((word, "") for word in reference.also if word)
            offers[name] = Offered((*words, *options), names)
        return offers

    return await store.scan(read) if references else {}


async def resolved(
    store: Store, references: References, texts: Mapping[str, str], kept: Mapping[str, str]
) -> tuple[Mapping[str, str], Sequence[MetadataError]]:
    """Return the texts with values in place of names, and the faults of those that mean none.

    A value that is in `kept` stays: what it names may have been deleted since.
    """

    def read(tx: Transaction) -> tuple[Mapping[str, str], Sequence[MetadataError]]:
        values, faults = dict(texts), list[MetadataError]()
        for name, reference in references.items():
            if reference.find is None or name not in texts:
                continue
            had, meant = set(_lines(kept.get(name, ""))), list[str]()
            for number, line in enumerate(_lines(texts[name])):
                candidates = () if line in had else reference.candidates(tx, line)
                if line not in had and len(candidates) != 1:
                    code = f"{reference.kind}.{'ambiguous' if candidates else 'unknown'}"
                    error = input_fault(f"{name}/{number}", code)
                    faults.append(reference.explain(tx, line, error))
                meant.append(candidates[0][0] if len(candidates) == 1 else line)
            values[name] = "\n".join(meant)
        return values, faults

    return await store.scan(read) if references else (texts, ())


def users_offered(tx: Transaction) -> tuple[Named, ...]:
    """Return usernames that a field offers, each with its name or email; the first hundred users.

    For callers that have checked the permission to view users.
    """
    users = (user for user in tx.users.page(0, _MOST_USERS) if not is_gone(user))
    return tuple((user.username, user.name or user.email) for user in users)


def suggestions(values: Callable[[], Iterable[str]]) -> Reference:
    """Return the reference of a field whose values are known; the operation judges them."""
    return Reference(lambda _: tuple((value, "") for value in values()))


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _apps(tx: Transaction) -> Sequence[Named]:
    lines = tx.client_search.page(ClientFilter(), END, MOST_OFFERED).lines
    return [(line.id, line.name) for line in lines]


def _app(tx: Transaction, text: str) -> Sequence[Named]:
    # A client ID comes first: no name of another app can hide it.
    client = tx.clients.find(text) if text.isascii() else None
    if client is not None and not tx.client_search.is_gone(text):
        return ((client.id, client.name),)
    lines = tx.client_search.page(ClientFilter(text), END, MOST_OFFERED).lines
    return [(line.id, line.name) for line in lines if fold(line.name) == fold(text)]


def _group(tx: Transaction, text: str) -> Sequence[Named]:
    group = tx.groups.find(text)
    return () if group is None else ((group.name, group.description),)


def _api(tx: Transaction, text: str) -> Sequence[Named]:
    api = tx.apis.find_by_key(canonical(text))
    if api is not None:
        return ((api.identifier, api.name),)
    listed = tx.apis.page("", _APIS_LOOKED_AT)
    return [
        (listed_api.identifier, listed_api.name)
        for listed_api in listed
        if fold(listed_api.name) == fold(text)
    ]


APPS = Reference(_apps, _app, "app")
"""Apps, by name or client ID."""

ANY_APP = Reference(_apps, _app, "app", also=("any",))
"""Apps, or the word any."""

GROUPS = Reference(
    lambda tx: [(group.name, group.description) for group in tx.groups.list("", MOST_OFFERED)],
    _group,
    "group",
    unknown_group,
)
"""Groups, by name."""


def apis(default: str) -> Reference:
    """Return the reference of APIs; `default` is the identifier of the server's own."""
    return Reference(
        lambda tx: [(api.identifier, api.name) for api in tx.apis.page("", MOST_OFFERED)],
        _api,
        "api",
        also=(default,),
    )
