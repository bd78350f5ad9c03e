"""GitHub, which supports OAuth 2 but not OpenID Connect: its API identifies the user."""

from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import TypeVar

import msgspec
from msgspec import Struct

from valetkey.authorization.protocol.authorization_request import challenge_of
from valetkey.authorization.providers.rules.connection import (
    NEVER_ISSUED,
    ClaimedIdentity,
    ProviderConnection,
    UpstreamState,
    address,
    code_of,
    fetched,
    kept_claims,
    one_line,
    only_code_refused,
    plain,
    unusable,
)
from valetkey.authorization.providers.settings import ProviderSettings
from valetkey.fetch.outbound import JSON, Fetched, Unfetchable
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.url import append_query

_T = TypeVar("_T")
_PUBLIC = "https://github.com"
_PUBLIC_API = "https://api.github.com"
_SCOPES = ("read:user", "user:email")
_MOST_ADDRESSES = 200


class _Token(msgspec.Struct, frozen=True):
    access_token: str


class _Person(msgspec.Struct, frozen=True):
    id: int
    login: str
    name: str | None = None


class _Address(msgspec.Struct, frozen=True):
    email: str
    primary: bool = False
    verified: bool = False


class GitHubProvider(Struct, frozen=True):
    """GitHub, or GitHub Enterprise at the configured address."""

    line: ProviderConnection

    @property
    def settings(self) -> ProviderSettings:
        """Return its configuration."""
        return self.line.settings

    async def authorization_url(self, upstream_state: UpstreamState) -> str:
        """Return the authorization request; refused if the user must authenticate again.

        GitHub can neither be asked for it, nor does it say when a user authenticated.
        """
        if upstream_state.fresh:
            raise Refused.because(
                ErrorCode.ACCESS_DENIED,
                "the app requires that you authenticate again, which this provider cannot ask for; "
                "sign in with another method",
                "federation.fresh",
                "a provider that can authenticate users again",
            )
        pairs = {
            "client_id": self.settings.client_id,
            "redirect_uri": upstream_state.callback,
            "scope": " ".join(dict.fromkeys((*_SCOPES, *self.settings.scopes))),
            "state": upstream_state.state,
            "code_challenge": challenge_of(upstream_state.verifier),
            "code_challenge_method": "S256",
        }
        return append_query(f"{self.settings.issuer}/login/oauth/authorize", pairs.items())

    async def read(
        self, answer: Mapping[str, str], upstream_state: UpstreamState, now: Instant
    ) -> ClaimedIdentity:
        """Return the user of the code; GitHub never reuses the numeric id."""
        asking = self._token_request(code_of(answer, self.settings), upstream_state)
        token = self._decoded((await fetched(asking, self.settings, "token")).body, _Token)
        authorization = f"Bearer {one_line(token.access_token)}"
        asking = self.line.http.get_authorized(f"{self._api}/user", authorization=authorization)
        body = (await fetched(asking, self.settings, "user")).body
        person = self._decoded(body, _Person)
        if person.id <= 0:
            raise unusable(self.settings, "user")
        email = await self._address(authorization)
        return ClaimedIdentity(
            issuer=self.settings.issuer,
            subject=str(person.id),
            email=email,
            email_verified=bool(email),
            name=plain(person.name),
            username=plain(person.login),
            kept=kept_claims(self.settings, self._decoded(body, dict[str, object])),
        )

    async def probe(self, upstream_state: UpstreamState) -> None:
        """Send a token request with an unknown code."""
        await only_code_refused(self._token_request(NEVER_ISSUED, upstream_state), self.settings)

    def _token_request(self, code: str, upstream_state: UpstreamState) -> Awaitable[Fetched]:
        fields = {
            "client_id": self.settings.client_id,
            "client_secret": self.line.secret.reveal(),
            "code": code,
            "redirect_uri": upstream_state.callback,
            "code_verifier": upstream_state.verifier,
        }
        url = f"{self.settings.issuer}/login/oauth/access_token"
        return self.line.http.post_form(url, fields, accept=JSON)

    async def _address(self, authorization: str) -> str:
        asking = self.line.http.get_authorized(
            f"{self._api}/user/emails", authorization=authorization
        )
        try:
            answered = await asking
        except Unfetchable:
            return ""
        if answered.status != HTTPStatus.OK:
            # Users may keep their addresses private.
            return ""
        addresses = self._decoded(answered.body, list[_Address])[:_MOST_ADDRESSES]
        return next((address(one.email) for one in addresses if one.primary and one.verified), "")

    @property
    def _api(self) -> str:
        issuer = self.settings.issuer
        return _PUBLIC_API if issuer == _PUBLIC else f"{issuer}/api/v3"

    def _decoded(self, body: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError:
            raise unusable(self.settings, "answer") from None
