"""The claims of tokens beyond the user's record: groups, roles at APIs, and those of features.

Evaluated in the transaction that issues the token. Nothing is read unless a claim needs it; groups
and roles are read by one statement, and kept until they change, as are the claims of whole tokens.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from valetkey.authorization.model.api import (
    LARGEST_CLAIMS,
    NO_CLAIMS,
    Api,
    ClaimLocation,
    Claims,
    ExtraClaim,
    ReadsFor,
)
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import (
    CLAIM_NAMES,
    CLAIM_SOURCES,
    GROUPS,
    ROLES,
)
from valetkey.authorization.storage.apis import Memberships
from valetkey.authorization.storage.revision import is_revision, revision
from valetkey.authorization.storage.transaction import Store, Transaction, UpstreamServer
from valetkey.authorization.tokens.claims_file import ClaimsFile
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.kernel import metrics
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import canonical

K = TypeVar("K")
T = TypeVar("T")

_USERINFO = "userinfo"
_NO_MEMBERSHIPS = Memberships((), ())
_MOST_MEMBERSHIPS = 10_000
_MOST_TOKENS = 2_000  # their claims can have 8 KiB each
_MOST_UPSTREAM = 2_000
_Memberships = dict[tuple[Uid, int, str], Memberships]
_Upstream = dict[tuple[Uid, int], Mapping[str, Claims]]
_Tokens = dict[tuple[object, ...], "_OfTokens"]
_NO_SERVERS: Mapping[str, UpstreamServer] = MappingProxyType({})


class TokenClaims:
    """The claims of each token, with those of features as of the last known revision."""

    def __init__(
        self,
        store: Store,
        default: Api,
        file: ClaimsFile | None = None,
        userinfo: str = "",
    ) -> None:
        """Read from `store`; `default` is the API of tokens that are for no other.

        `userinfo` is the address that tokens name for lists that they leave out, `file` is the
        operator's function.
        """
        self.default = default
        self.file = file
        self._userinfo = userinfo
        self._store = store
        self._known = _CachedClaims(-1, -1, (), _NO_SERVERS)

    def declared(self, tx: Transaction) -> Sequence[ExtraClaim]:
        """Return the declared claims as this transaction sees them. Any thread may ask."""
        return self._at(tx).claims

    async def as_of(self, revision: int) -> Sequence[ExtraClaim]:
        """Return the declared claims as of the revision that the clients' directory compared."""
        cache = self._known
        if (cache.number, cache.failures) != (revision, self._store.engine.failures()):
            return await self._store.read(self.declared)
        return cache.claims

    def of_tokens(
        self,
        tx: Transaction,
        client_id: str,
        api: Api,
        scope: Scope,
        user: User | None,
        identity: SignInRecord | None,
    ) -> tuple[Claims, SignInRecord | None]:
        """Return the claims of an access token, and the identity of its ID token with its claims.

        `user` is None for a client's own token. Raises Refused if the claims of either are larger
        than 8 KiB without lists of groups and roles.
        """
        names = () if identity is None else identity.claim_names
        key = (user and user.uid, client_id, api.id, scope.names, identity is None, GROUPS in names)
        cache = self._at(tx)
        claims = cache.tokens.get(key)
        # The inputs of a claim are in the record of the user or change the revision.
        if claims is not None and claims.user != user:
            claims = None
        if self.file is None:
            metrics.CACHE.add("claims", "miss" if claims is None else "hit")
        if claims is None:
            values = _Values(tx, user, api, self._at)
            of_identity = self._id_token(tx, identity, values) if identity else NO_CLAIMS
            access_token = self._access_token(tx, client_id, scope, values)
            claims = _OfTokens(user, access_token, of_identity)
            # The operator's function is asked for each token.
            if self.file is None:
                _keep(cache.tokens, _MOST_TOKENS, key, claims)
        if identity and claims.identity:
            identity = replace(identity, stored=claims.identity)
        return claims.access_token, identity

    def of_access_token(
        self, tx: Transaction, client_id: str, api: Api, scope: Scope, user: User | None
    ) -> Claims:
        """Return the claims of an access token alone, as `of_tokens` does."""
        return self._access_token(tx, client_id, scope, _Values(tx, user, api, self._at))

    def of_identity(
        self, tx: Transaction, identity: SignInRecord, api: Api | None = None
    ) -> SignInRecord:
        """Return the identity with the claims of its ID token that are not in the user's record.

        `api` is that of the access token issued with it, the default one without one.
        """
        values = _Values(tx, identity.user, api or self.default, self._at)
        return replace(identity, stored=self._id_token(tx, identity, values))

    def _at(self, tx: Transaction) -> "_CachedClaims":
        cache, failures = self._known, self._store.engine.failures()
        # Mostly without waiting. Values that were read in a transaction that was lost are dropped.
        if failures != cache.failures or not is_revision(tx.db, cache.number):
            # Before the claims: they may be newer than their number, but never older.
            number = revision(tx.db)
            claims = tuple(tx.claims())
            reads_upstream = any(claim.reads is ReadsFor.UPSTREAM for claim in claims)
            servers = tx.upstream_servers() if reads_upstream else _NO_SERVERS
            cache = self._known = _CachedClaims(number, failures, claims, servers)
        return cache

    def _access_token(
        self, tx: Transaction, client_id: str, scope: Scope, values: "_Values"
    ) -> Claims:
        api = values.api
        chosen = _chosen(self.declared(tx), ClaimLocation.ACCESS_TOKEN, client_id, api, scope)
        has_roles = bool(api.roles) and values.user is not None
        if not chosen and not has_roles and self.file is None:
            return NO_CLAIMS
        claims: dict[str, object] = {ROLES: values.roles_at(api)} if has_roles else {}
        claims |= values.values_of(chosen)
        lists = _lists(chosen, ROLES) if has_roles else _lists(chosen)
        claims |= self._of_file(values, client_id, api, scope)
        return with_lists_that_fit(claims, lists, self._userinfo)

    def _id_token(self, tx: Transaction, identity: SignInRecord, values: "_Values") -> Claims:
        client_id, scope = identity.client.id, identity.scope
        chosen = _chosen(self.declared(tx), ClaimLocation.ID_TOKEN, client_id, values.api, scope)
        claims = self._found(values, chosen, identity.claim_names, client_id, scope)
        return with_lists_that_fit(claims, _lists(chosen, GROUPS), self._userinfo)

    def of_userinfo(
        self,
        tx: Transaction,
        user: User,
        client_id: str,
        scope: Scope,
        names: Collection[str],
        declared: Sequence[ExtraClaim] | None = None,
    ) -> Claims:
        """Return the same for userinfo, whose tokens are for the default API.

        `declared` are the declared claims, if the caller has just read them.
        """
        extra_claims = self.declared(tx) if declared is None else declared
        chosen = _chosen(extra_claims, ClaimLocation.USERINFO, client_id, self.default, scope)
        values = _Values(tx, user, self.default, self._at)
        claims = self._found(values, chosen, names, client_id, scope)
        # The place where lists that tokens leave out are complete.
        require_bounded(claims, _lists(chosen, GROUPS))
        return claims

    async def introspected(self, revision: int) -> Sequence[ExtraClaim]:
        """Return the declared claims of introspection, by the revision as for `as_of`."""
        extra_claims = await self.as_of(revision)
        return [claim for claim in extra_claims if ClaimLocation.INTROSPECTION in claim.places]

    def of_introspection(
        self,
        tx: Transaction,
        declared: Sequence[ExtraClaim],
        client_id: str,
        api: Api,
        scope: Scope,
        user: User | None,
    ) -> Claims:
        """Return those of `declared` that introspection tells the API of a token about its user."""
        chosen = _chosen(declared, ClaimLocation.INTROSPECTION, client_id, api, scope)
        return _Values(tx, user, api, self._at).values_of(chosen)

    def are_stored_with_user(
        self, declared: Sequence[ExtraClaim], client_id: str, scope: Scope
    ) -> bool:
        """Return whether userinfo's claims for this scope need no statement but the user's."""
        if self.file is not None or GROUPS in scope:
            return False
        chosen = _chosen(declared, ClaimLocation.USERINFO, client_id, self.default, scope)
        return all(claim.reads is ReadsFor.NOTHING for claim in chosen)

    def _found(
        self,
        values: "_Values",
        chosen: Sequence[ExtraClaim],
        names: Collection[str],
        client_id: str,
        scope: Scope,
    ) -> Claims:
        if not chosen and GROUPS not in names and self.file is None:
            return NO_CLAIMS
        claims: dict[str, object] = {GROUPS: values.groups("")} if GROUPS in names else {}
        claims |= values.values_of(chosen)
        return claims | self._of_file(values, client_id, None, scope)

    def _of_file(
        self, values: "_Values", client_id: str, api: Api | None, scope: Scope
    ) -> dict[str, object]:
        """Return the result of the operator's function; `api` is None except for access tokens."""
        if self.file is None:
            return {}
        shown = None if api is None else {"identifier": api.identifier, "name": api.name}
        question = {
            "user": values.shown(),
            "client": {"client_id": client_id},
            "api": shown,
            "scopes": sorted(scope),
        }
        return dict(self.file.claims(question))

    async def supply(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work that evaluates claims in a transaction; again if it needs the function first.

        Raises Refused if the function fails.
        """
        return await (work() if self.file is None else self.file.supply(work))


class _CachedClaims(Struct, frozen=True):
    """Declared claims at one revision, and the memberships that were read at it.

    Memberships by user, `User.membership_number` and API. A transaction that read them before a
    change keeps them in the `_Known` of before. `failures` are those of the engine before it began.
    The claims of `tokens` are for the user as recorded with them.
    """

    number: int
    failures: int
    claims: Sequence[ExtraClaim]
    servers: Mapping[str, UpstreamServer]
    memberships: _Memberships = field(default_factory=_Memberships)
    upstream: _Upstream = field(default_factory=_Upstream)
    tokens: _Tokens = field(default_factory=_Tokens)

    def upstream_of(self, tx: Transaction, user: User, server_id: str, name: str) -> object:
        """Return the claim that the other server sent at the last sign-in; None if it sent none."""
        server = self.servers.get(server_id)
        # A claim that is no longer kept is ignored, although it is stored until the next sign-in.
        if server is None or name not in server.keep_claims:
            return None
        key = (user.uid, user.membership_number)
        upstream_claims = self.upstream.get(key)
        if upstream_claims is None:
            upstream_claims = tx.upstream_claims(user.uid)
            _keep(self.upstream, _MOST_UPSTREAM, key, upstream_claims)
        return upstream_claims.get(server.issuer, NO_CLAIMS).get(name)

    def memberships_of(self, tx: Transaction, user: User, api: Api) -> Memberships:
        """Return the user's memberships; read if they changed since they were read here."""
        key = (user.uid, user.membership_number, api.id)
        user_memberships = self.memberships.get(key)
        metrics.CACHE.add("memberships", "miss" if user_memberships is None else "hit")
        if user_memberships is None:
            user_memberships = tx.api_roles.memberships(user.uid, api.id)
            _keep(self.memberships, _MOST_MEMBERSHIPS, key, user_memberships)
        return user_memberships


class _OfTokens(Struct, frozen=True):
    """The claims of an access token and of the ID token issued with it, for a user."""

    user: User | None
    access_token: Claims
    identity: Claims


def _keep(kept: dict[K, T], most: int, key: K, value: T) -> None:
    if len(kept) >= most:
        kept.clear()
    kept[key] = value


class _Values:
    """The values of claims for one user at one API."""

    def __init__(
        self,
        tx: Transaction,
        user: User | None,
        api: Api,
        known_at: Callable[[Transaction], _CachedClaims],
    ) -> None:
        self._tx = tx
        self._known_at = known_at
        self._values: dict[str, object] = {}
        self.user = user
        self.api = api

    def values_of(self, chosen: Sequence[ExtraClaim]) -> dict[str, object]:
        """Return the values by name; a claim without a value is absent."""
        # Access token and ID token mostly have the same claims.
        for claim in chosen:
            if claim.name not in self._values:
                self._values[claim.name] = claim.value(self)
        pairs = ((claim.name, self._values[claim.name]) for claim in chosen)
        return {name: value for name, value in pairs if value is not None}

    def shown(self) -> dict[str, object] | None:
        """Return the input of the operator's function; None for a client's own token."""
        if self.user is None:
            return None
        return {
            "uid": self.user.uid,
            "username": self.user.username,
            "name": self.user.name,
            "email": self.user.email,
            "email_verified": self.user.email_verified_at is not None,
            "attributes": dict(self.user.attributes.values),
            "groups": self.groups(""),
            "roles": self.roles_at(self.api),
        }

    def groups(self, prefix: str) -> list[str]:
        """Return the user's groups whose names begin with `prefix`."""
        return [name for name in self._at(self.api).groups if name.startswith(prefix)]

    def roles(self, identifier: str) -> list[str]:
        """Return the user's roles at the API with this identifier, "" for that of the token."""
        api = self._tx.apis.find_by_key(canonical(identifier)) if identifier else self.api
        return [] if api is None else self.roles_at(api)

    def roles_at(self, api: Api) -> list[str]:
        """Return the user's roles at the API, of those that it declares."""
        return [role for role in self._at(api).roles if role in api.roles]

    def upstream(self, server_id: str, name: str) -> object:
        """Return the claim that the other server sent at the last sign-in; None if it sent none."""
        if self.user is None:
            return None
        return self._known_at(self._tx).upstream_of(self._tx, self.user, server_id, name)

    def _at(self, api: Api) -> Memberships:
        if self.user is None:
            return _NO_MEMBERSHIPS
        return self._known_at(self._tx).memberships_of(self._tx, self.user, api)


def with_lists_that_fit(claims: Claims, lists: Collection[str], userinfo: str) -> Claims:
    """Return claims of at most 8 KiB: the largest of `lists` are left out until the rest fits.

    Those left out are named as claims of `userinfo` (OpenID Connect Core section 5.6.2). Raises
    Refused if the other claims alone are larger.
    """
    sizes = _sizes(claims)
    size = sum(sizes.values())
    if size <= LARGEST_CLAIMS:
        return claims
    require_bounded(claims, lists)
    kept, names = dict(claims), dict[str, str]()
    for name in sorted((name for name in lists if name in sizes), key=lambda it: -sizes[it]):
        if size <= LARGEST_CLAIMS:
            break
        size -= sizes[name]
        del kept[name]
        names[name] = _USERINFO
    sources = {_USERINFO: {"endpoint": userinfo}}
    return {**kept, CLAIM_NAMES: names, CLAIM_SOURCES: sources}


def require_bounded(claims: Claims, lists: Collection[str]) -> None:
    """Raise Refused if the claims without `lists` have more than 8 KiB."""
    sizes = {name: size for name, size in _sizes(claims).items() if name not in lists}
    size = sum(sizes.values())
    if size <= LARGEST_CLAIMS:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    raise Refused.because(
        ErrorCode.INVALID_REQUEST,
        "the claims of this token are too large; the operator has to shorten them",
        "claims.size",
        f"at most {LARGEST_CLAIMS} bytes",
        f"{size} bytes, {sizes[largest]} of them in {largest}",
    )


def _sizes(claims: Claims) -> dict[str, int]:
    """Return the bytes of each claim in a token: its name, its value, and what separates them."""
    return {name: len(msgspec.json.encode({name: value})) - 1 for name, value in claims.items()}


def _lists(chosen: Sequence[ExtraClaim], *more: str) -> frozenset[str]:
    """Return the names of the claims that are as long as a user has groups or roles."""
    return frozenset(
        (*more, *(claim.name for claim in chosen if claim.reads is ReadsFor.MEMBERSHIPS))
    )


def _chosen(
    declared: Sequence[ExtraClaim],
    location: ClaimLocation,
    client_id: str,
    api: Api,
    scope: Collection[str],
) -> Sequence[ExtraClaim]:
    if not declared:
        return ()
    return [
        claim
        for claim in declared
        if location in claim.places and claim.is_for(client_id, api, scope)
    ]


def encoded(claims: Mapping[str, object]) -> str:
    """Encode the claims of a token by reference for storage; "" for none."""
    return msgspec.json.encode(dict(claims)).decode() if claims else ""


def decoded(text: str) -> Claims:
    """Decode what `encoded` returned."""
    return msgspec.json.decode(text, type=dict[str, object]) if text else NO_CLAIMS
