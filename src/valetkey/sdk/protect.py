"""Protection: authenticates and authorizes the callers of an API, and describes it (RFC 9728)."""

import asyncio
import re
import ssl
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from valetkey.kernel.jose.access_token import Binding
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret
from valetkey.sdk.caller import LONGEST, Caller, Challenge, read_bearer
from valetkey.sdk.fetch import Credential, Fetcher, HttpClient
from valetkey.sdk.upstream.discovery import Issuer, KeySource
from valetkey.sdk.upstream.discovery import Keep as KeepKeys
from valetkey.sdk.upstream.introspection import REMEMBERED, Introspection
from valetkey.sdk.upstream.revocations import NOTHING, Page, Revocations
from valetkey.sdk.upstream.revocations import Keep as KeepRevocations
from valetkey.sdk.upstream.uses import Uses
from valetkey.sdk.verify import Verifier

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_URL = re.compile(r"(https?://[^/?#\s]+)(/[^?#\s]*)?", re.ASCII)


def metadata_path(resource: str) -> str:
    """Return the path of the metadata of the API called `resource` (RFC 9728 section 3.1).

    The path is on the host of `resource`; "" if `resource` is no http or https URL: such an API has
    no metadata.
    """
    match = _URL.fullmatch(resource)
    if match is None:
        return ""
    path = match[2] or ""
    return WELL_KNOWN + ("" if path == "/" else path)


def metadata_url(resource: str) -> str:
    """Return the URL of the metadata document; "" if there is none."""
    match = _URL.fullmatch(resource)
    return "" if match is None else match[1] + metadata_path(resource)


def metadata_document(
    resource: str,
    issuers: Sequence[str],
    scopes: Collection[str] = (),
    *,
    name: str = "",
    documentation: str = "",
) -> bytes:
    """Return the document as JSON (section 2).

    `documentation` is the URL of a page for developers. Tokens are accepted in the Authorization
    header alone.
    """
    document: dict[str, object] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = list(scopes)
    if name:
        document["resource_name"] = name
    if documentation:
        document["resource_documentation"] = documentation
    return msgspec.json.encode(document)


_BEARER = "Bearer "


@dataclass(frozen=True, slots=True)
class Memory:
    """State loaded at start, and the functions that persist it.

    With it, an API that starts while the issuer is unreachable knows the keys and revocations.
    """

    keys: bytes = b""
    revocations: Page = NOTHING
    keep_keys: KeepKeys | None = None
    keep_revocations: KeepRevocations | None = None


NO_MEMORY = Memory()
"""Nothing known, nothing persisted."""


class Protection:
    """Admit callers with a live access token and a required scope.

    All requests share keys, revocations and cached introspection: create one for each process,
    inside the event loop that will use it, keep `follow` running, and `close` it at the end.

    Here a mint of `valetkey.sdk.testing` makes the protection, and the token that it admits:

    >>> import asyncio, time
    >>> from valetkey.sdk.testing import Mint
    >>> mint = Mint("https://api.example.com")
    >>> async def admit(token: str, *needs: str) -> Caller:
    ...     now = Instant(int(time.time()))
    ...     async with mint.protection() as protection:
    ...         return await protection.admit([f"Bearer {token}"], now, *needs)
    >>> asyncio.run(admit(mint.token("notes:read"), "notes:read")).user
    '1001'
    >>> asyncio.run(admit(mint.token("notes:read"), "notes:write"))
    Traceback (most recent call last):
    ...
    valetkey.kernel.refusal.Refused: ...
    """

    def __init__(
        self,
        issuer: Issuer,
        *,
        audience: str,
        credential: Credential | None = None,
        realm: str = "",
        memory: Memory = NO_MEMORY,
        remembered: Lifetime = REMEMBERED,
        tls: ssl.SSLContext | None = None,
        resource_metadata: str = "",
        http: HttpClient | None = None,
        watches: Callable[[], Collection[str]] | None = None,
        revocations_max_age: Lifetime | None = None,
    ) -> None:
        """Protect the API that tokens call `audience`.

        Without `credential` only JWTs are accepted, and revocations are not followed. `remembered`
        is how long introspection responses are cached; `tls` is the trust for connections to the
        issuer; `resource_metadata` is the URL of the API's own metadata; `http` replaces the
        network. `watches` returns the scopes whose use `admit` reports to the issuer once a minute,
        for the pages on which users see what apps use; needs a credential. A JWT gets 503 while the
        issuer has not said for `revocations_max_age` what was revoked, at least 5 seconds; without
        it, the revocations that are known apply for as long as the issuer does not answer.
        """
        self.challenge = Challenge(realm or audience, resource_metadata)
        self._fetch = Fetcher(tls) if http is None else http
        self._keys = KeySource(issuer.keys, self._fetch, cached=memory.keys, keep=memory.keep_keys)
        self._revocations = (
            Revocations(
                issuer.revocations,
                self._fetch,
                credential,
                cached=memory.revocations,
                keep=memory.keep_revocations,
            )
            if credential is not None and issuer.revocations
            else None
        )
        self._uses = (
            Uses(issuer.uses, self._fetch, credential, watches)
            if credential and issuer.uses and watches and isinstance(self._fetch, Fetcher)
            else None
        )
        introspection = (
            Introspection(
                issuer.introspection,
                self._fetch,
                credential,
                issuer=issuer.url,
                audience=audience,
                nameless=not issuer.checksummed,
                keys=self._keys if issuer.signed_introspection else None,
                remembered=remembered,
            )
            if credential is not None and issuer.introspection
            else None
        )
        self._verifier = Verifier(
            issuer=issuer,
            audience=audience,
            keys=self._keys,
            introspection=introspection,
            revocations=self._revocations,
            max_age=revocations_max_age,
        )

    async def admit(
        self,
        authorization: Sequence[str],
        now: Instant,
        *needs: str,
        roles: Collection[str] = (),
    ) -> Caller:
        """Return the caller, given the request's Authorization fields (all of them, as sent).

        Any one scope in `needs` suffices, and any one role in `roles`; an empty collection accepts
        every live token. Raises Refused: 400, 401 `invalid_token`, 403 `insufficient_scope`, 403
        `forbidden` without such a role, 503.
        """
        caller = await self.caller(read_bearer(authorization), now)
        if needs:
            demand(caller, *needs)
        if roles:
            demand_role(caller, *roles)
        if self._uses is not None:
            self._uses.record(caller, needs or ("",), now)
        return caller

    def recall(self, authorization: Sequence[str], now: Instant) -> Caller | None:
        """Return the caller of a JWT that was verified before and is still valid.

        None is no decision: call `admit`. For servers on which microseconds matter.
        """
        if len(authorization) != 1:
            return None
        field = authorization[0]
        # Its characters are not checked: a token verified before is well-formed.
        if not field.startswith(_BEARER) or len(field) > LONGEST:
            return None
        return self._verifier.recall(field[len(_BEARER) :], now)

    async def caller(self, token: Secret, now: Instant, proven: Collection[Binding] = ()) -> Caller:
        """Return the caller of a token. Raises Refused: 401 `invalid_token`, 503.

        A token that is bound to a key (`cnf`) is refused unless that key is among `proven`: the
        keys that the sender has shown to hold, by a DPoP proof or a client certificate.
        """
        verdict = await self._verifier.verify(token.reveal(), now, proven)
        if isinstance(verdict, Refusal):
            raise Refused(verdict)
        return verdict

    async def follow(self, now: Callable[[], Instant]) -> None:
        """Keep keys and revocations fresh and report uses, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keys.follow(now))
                if self._revocations is not None:
                    tasks.create_task(self._revocations.follow(now))
                if self._uses is not None:
                    tasks.create_task(self._uses.run(now))
        finally:
            if self._uses is not None:
                await self._uses.close(now())

    async def refresh(self, now: Instant) -> bool:
        """Fetch keys and revocations once; return whether the issuer answered."""
        await self._keys.fetch_missing(now)
        heard = self._revocations is None or await self._revocations.poll(now)
        return heard and self._keys.is_sure()

    async def close(self) -> None:
        """Close the connections to the issuer."""
        await self._fetch.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()


def demand(caller: Caller, *needs: str) -> None:
    """Raise Refused (`insufficient_scope`) unless the caller has one of these scopes."""
    if not caller.allows(*needs):
        raise Refused.because(
            ErrorCode.INSUFFICIENT_SCOPE,
            f"this needs an access token with the scope {' or '.join(needs)}",
            "scope.missing",
            " or ".join(needs),
            str(caller.scope) or "no scope",
        )


def demand_role(caller: Caller, *roles: str) -> None:
    """Raise Refused (`forbidden`) unless the caller has one of these roles at the API."""
    if not set(roles) & set(caller.roles):
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            f"this needs the role {' or '.join(roles)}",
            "role.missing",
            " or ".join(roles),
            " ".join(caller.roles) or "no role",
        )
