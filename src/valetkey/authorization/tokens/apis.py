"""A bounded cache of APIs in each process, current to the last revision."""

from collections.abc import Callable, Mapping, Sequence

from valetkey.authorization.model.api import Api, ApiGeneration
from valetkey.authorization.model.client import RESOURCE_SERVER, Client
from valetkey.authorization.protocol.resource import (
    MOST,
    identifier_fault,
    joined,
    split,
    too_many_targets,
    with_audience,
    wrong_target,
)
from valetkey.authorization.storage.revision import is_revision, revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import ALGORITHM
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import canonical

_MOST_KNOWN = 10_000
_LISTED = 11


def default_api(identifier: str, name: str, scopes: Mapping[str, str], machine_scope: Scope) -> Api:
    """Return the operator's own API, whose tokens follow each client's registration."""
    return Api(
        id="",
        identifier=identifier,
        name=name,
        scopes=scopes,
        machine_scopes=machine_scope.names,
        access_token_format=None,
        signing_algorithm=ALGORITHM,
        created_at=Instant(0),
        changed_at=Instant(0),
    )


class _CachedApis:
    """APIs that were read at one revision, after so many failures of the engine."""

    __slots__ = ("by_id", "by_key", "failures", "number")

    def __init__(self, number: int, failures: int) -> None:
        self.number = number
        self.failures = failures
        self.by_key: dict[str, Api] = {}
        self.by_id: dict[str, Api] = {}


class ApiDirectory:
    """APIs by identifier and by id. What a transaction is given is valid until it commits.

    A transaction shares the register's lock when it compares the revision
    (docs/decisions/0015-ending-against-issuing.md), and a change of an API excludes it.
    """

    def __init__(
        self,
        store: Store,
        revision: Callable[[], int],
        default: Api,
        *,
        takes_audience: bool = False,
    ) -> None:
        """Read from `store`; `revision` is the one that the clients' directory compared last.

        `takes_audience` says whether requests name APIs by `audience` too.
        """
        self.default = default
        self.takes_audience = takes_audience
        self._store = store
        self._revision = revision
        self._default_key = canonical(default.identifier)
        self._known = _CachedApis(-1, -1)

    def named(self, text: str, audience: str | None) -> str:
        """Return the joined values of `resource` with `audience`, where that counts.

        A text that names nothing where the two name different APIs.
        """
        if not audience or not self.takes_audience:
            return text
        named = with_audience(split(text), audience)
        return joined(named[:1] if len(named) == 1 else [" ".join(named)])

    def find(self, tx: Transaction, identifier: str) -> Api | None:
        """Return the API, enabled or not, as this transaction sees it. Thread-safe."""
        key = canonical(identifier)
        if key == self._default_key:
            return self.default
        # Databases cannot store every text that a request can contain.
        if identifier_fault(identifier):
            return None
        cache = self._at(tx)
        api = None if cache is None else cache.by_key.get(key)
        if api is None:
            api = tx.apis.find_by_key(key)
            _keep(cache, api, key)
        return api

    def find_by_id(self, tx: Transaction, api_id: str) -> Api | None:
        """Return the API by its id, "" for the default one, as this transaction sees it."""
        if not api_id:
            return self.default
        cache = self._at(tx)
        api = None if cache is None else cache.by_id.get(api_id)
        if api is None:
            api = tx.apis.find(api_id)
            _keep(cache, api, "" if api is None else canonical(api.identifier))
        return api

    async def requested(self, text: str, client: Client) -> tuple[Api, ...] | Refusal:
        """Return the APIs of an authorization request, the default one where it names none.

        For a request that is judged again in a transaction, by `requested_in`.
        """
        if not text or canonical(text) == self._default_key:
            return (self.default,)
        self.renew()
        # Mostly a single one; no identifier contains the space that separates several.
        single = self._known.by_key.get(canonical(text))
        if single is not None and single.admits(client):
            return (single,)
        candidates = [self._known.by_key.get(canonical(identifier)) for identifier in split(text)]
        apis = tuple(api for api in candidates if api is not None and api.admits(client))
        if len(apis) == len(candidates) <= MOST and len({api.id for api in apis}) == len(apis):
            return apis
        return await self._store.read(lambda tx: self.requested_in(tx, split(text), client))

    async def of_credential(self, client: Client) -> Api | None:
        """Return the API whose credential this client is."""
        if client.id == RESOURCE_SERVER:
            return self.default
        # Other clients have something to ask for.
        if client.grant_types or client.scope:
            return None
        self.renew()
        api = self._known.by_id.get(client.id)
        if api is None:
            api = await self._store.read(lambda tx: self.find_by_id(tx, client.id))
        return api

    def requested_in(
        self, tx: Transaction, resources: Sequence[str], client: Client
    ) -> tuple[Api, ...] | Refusal:
        """Return the APIs of these identifiers, once each; refused unless all are allowed."""
        if not resources:
            return (self.default,)
        if len(resources) > MOST:
            return too_many_targets(MOST)
        apis: dict[str, Api] = {}
        for identifier in resources:
            api = self.find(tx, identifier)
            if api is None or not api.admits(client):
                return wrong_target(identifier, self._listed(tx))
            apis[api.id] = api
        return tuple(apis.values())

    def granted(
        self, tx: Transaction, apis: Sequence[ApiGeneration], client: Client
    ) -> tuple[Api, ...]:
        """Return those of the APIs that are live, in their order; an empty list is the default."""
        if not apis:
            return (self.default,)
        live_apis: list[Api] = []
        for api_id, generation in apis:
            api = self.find_by_id(tx, api_id)
            if api is not None and api.generation == generation and api.admits(client):
                live_apis.append(api)
        return tuple(live_apis)

    def are_current(self, tx: Transaction, apis: Sequence[Api]) -> bool:
        """Return whether these are the APIs as this transaction sees them. False means unknown."""
        return all(self.find_by_id(tx, api.id) is api for api in apis)

    def renew(self) -> None:
        """Forget what was read at an earlier revision than the clients' directory compared last."""
        number, failures = self._revision(), self._store.engine.failures()
        if self._known.number != number or self._known.failures != failures:
            # Replaced as a whole: a transaction under way may still add to the one before.
            self._known = _CachedApis(number, failures)

    def _at(self, tx: Transaction) -> _CachedApis | None:
        cache = self._known
        # What was read in a transaction that was lost is dropped, as it may be of no revision.
        if cache.failures != self._store.engine.failures():
            # Shares the lock of the register, as a comparison does.
            revision(tx.db)
            return None
        # Mostly without waiting: a round trip only after something changed.
        return cache if is_revision(tx.db, cache.number) else None

    def _listed(self, tx: Transaction) -> Sequence[str]:
        return [self.default.identifier, *tx.apis.identifiers(_LISTED)]


def _keep(cache: _CachedApis | None, api: Api | None, key: str) -> None:
    if cache is None or api is None:
        return
    if len(cache.by_key) >= _MOST_KNOWN:
        cache.by_key.clear()
        cache.by_id.clear()
    # The one that is there stays: requests under way are known by it.
    api = cache.by_id.setdefault(api.id, api)
    cache.by_key[key] = api
