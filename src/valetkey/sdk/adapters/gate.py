"""Gate: an API's trusted issuer, its metadata, and its error responses."""

import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.sdk.bearer import Challenge
from valetkey.sdk.fetch import Credential
from valetkey.sdk.metadata import metadata_document, metadata_path, metadata_url
from valetkey.sdk.protect import NO_MEMORY, Memory, Protection
from valetkey.sdk.upstream.discovery import Issuer

_CHALLENGED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

Make = Callable[["Gate"], Protection]
"""Creates the protection of a gate."""


METADATA_HEADERS = {"access-control-allow-origin": "*"}
"""Headers of the metadata document: clients in browsers of any origin may read it."""


@dataclass(frozen=True, slots=True)
class Denial:
    """An error response, ready to be sent: a problem (RFC 9457) and a challenge (RFC 6750)."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Gate:
    """The configuration of an API for all adapters. Create one, pass it to the adapter."""

    def __init__(
        self,
        issuer: Issuer | str,
        *,
        audience: str,
        credential: Credential | None = None,
        name: str = "",
        documentation: str = "",
        scopes: Collection[str] = (),
        memory: Memory = NO_MEMORY,
        tls: ssl.SSLContext | None = None,
        runtime: Runtime = SYSTEM,
        reports_uses: bool = True,
    ) -> None:
        """Admit callers with a token of `issuer` for `audience`.

        A string is the URL of a Valetkey authorization server. `credential`, `memory` and `tls` are
        as for `Protection`; `name` and `documentation` describe the API in its metadata, where
        `scopes` precede those that its routes need. With a credential, the uses of these scopes are
        reported to the issuer once a minute, so that users see which permissions apps use;
        `reports_uses` turns that off.
        """
        self.issuer = Issuer.valetkey(issuer) if isinstance(issuer, str) else issuer
        self.audience = audience
        self.credential = credential
        self.memory = memory
        self.tls = tls
        self.runtime = runtime
        self.reports_uses = reports_uses
        self.metadata_path = metadata_path(audience)
        self._name = name
        self._documentation = documentation
        self._scopes = dict.fromkeys(scopes)
        self._make: Make = _protection
        self._challenge = Challenge(audience, metadata_url(audience))
        self.changes = 0

    def metadata(self) -> bytes:
        """Return the API's metadata document (RFC 9728), to be served at `metadata_path`.

        With `METADATA_HEADERS`, as `application/json`.
        """
        return metadata_document(
            self.audience,
            [self.issuer.url],
            tuple(self._scopes),
            name=self._name,
            documentation=self._documentation,
        )

    def needs(self, names: Collection[str]) -> None:
        """Record that a route needs one of these scopes, for the metadata."""
        self._scopes.update(dict.fromkeys(names))

    def watches(self) -> Collection[str]:
        """Return the scopes whose use is reported; "" alone for an API without scopes."""
        return tuple(self._scopes) or ("",)

    def protection(self) -> Protection:
        """Return a new protection, which belongs to one event loop."""
        return self._make(self)

    def replace(self, make: Make | None) -> None:
        """Create protections with `make` from now on; None for the real ones. For tests."""
        self._make = make or _protection
        self.changes += 1

    def deny(self, refusal: Refusal, needs: Collection[str] = ()) -> Denial:
        """Return the response to `refusal`; its challenge names the first scope of `needs`."""
        status = refusal.code.status
        problem: dict[str, object] = {
            "title": refusal.code.heading,
            "status": status,
            "detail": refusal.description,
            "code": refusal.code.value,
        }
        if self.issuer.errors:
            problem["type"] = f"{self.issuer.errors}/{refusal.code}"
        headers = [("content-type", "application/problem+json"), ("cache-control", "no-store")]
        # With a challenge, clients would request another token, which has no other roles.
        if status in _CHALLENGED and refusal.code is not ErrorCode.FORBIDDEN:
            scope = next(iter(needs), "")
            headers.append(("www-authenticate", self._challenge.header(refusal, scope)))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return Denial(status, tuple(headers), msgspec.json.encode(problem))


def _protection(gate: Gate) -> Protection:
    return Protection(
        gate.issuer,
        audience=gate.audience,
        credential=gate.credential,
        memory=gate.memory,
        tls=gate.tls,
        resource_metadata=metadata_url(gate.audience),
        watches=gate.watches if gate.reports_uses else None,
    )
