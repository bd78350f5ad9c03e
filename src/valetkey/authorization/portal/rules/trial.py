"""Test runs of an app's authorization code flow by one of its developers, in the portal.

The state of a run is encrypted in its `state` and bound to the session that began it: nothing is
stored, and no other user can continue it.
"""

import json
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import AuthenticationMethod, Client, GrantTypeName
from valetkey.authorization.protocol.authorization_request import METHOD, challenge_of
from valetkey.authorization.protocol.resource import RESOURCE
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.secret import from_base64url, to_base64url
from valetkey.kernel.strict_json import read_object

CALLBACK = "/developer/try/callback"
"""The redirect URI of a test run that uses none of the app's own.

No client registers it: it is accepted in requests of one test run only, in the session that began
it.
"""

LIFETIME = minutes(10)
"""How long a test run may take."""

_CONTEXT = "developer trial"
_TOKEN = "developer trial token"
_SHOWN = 12


class TestRun(Struct, frozen=True):
    """A test run: its app, session and redirect URI, and the secrets of its requests.

    `resource` is the API that the token is for, "" for the default API.
    """

    client_id: str
    session_id: str
    redirect_uri: str
    scope: str
    verifier: str
    nonce: str
    expires_at: Instant
    resource: str = ""

    def seal(self, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Return its `state`, which needs no encoding in a URL."""
        return sealer.seal(msgspec.msgpack.encode(self), _CONTEXT, random)

    @staticmethod
    def open(sealed: str, sealer: Sealer, now: Instant) -> "TestRun | None":
        """Decrypt what `seal` returned; None if it expired or is anything else."""
        plain = sealer.open(sealed, _CONTEXT)
        if plain is None:
            return None
        try:
            trial = msgspec.msgpack.decode(plain, type=TestRun)
        except msgspec.MsgspecError:
            return None
        return trial if trial.expires_at > now else None

    def request(self, state: str) -> tuple[tuple[str, str], ...]:
        """Return the parameters of its authorization request."""
        return (
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect_uri),
            *((("scope", self.scope),) if self.scope else ()),
            *self._target,
            ("state", state),
            ("nonce", self.nonce),
            ("code_challenge", challenge_of(self.verifier)),
            ("code_challenge_method", METHOD),
        )

    def exchange(self, code: str) -> tuple[tuple[str, str], ...]:
        """Return the parameters of its token request, without client authentication."""
        return (
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect_uri),
            ("code_verifier", self.verifier),
            *self._target,
        )

    @property
    def _target(self) -> tuple[tuple[str, str], ...]:
        return ((RESOURCE, self.resource),) if self.resource else ()


class TestRunToken(Struct, frozen=True):
    """The access token of a test run, and what the response said about it."""

    token: str
    scope: str
    expires_at: Instant

    def seal(self, session_id: str, sealer: Sealer, random: Callable[[int], bytes]) -> str:
        """Encrypt it for the next step of this session."""
        return sealer.seal(msgspec.msgpack.encode(self), f"{_TOKEN} {session_id}", random)

    @staticmethod
    def open(sealed: str, session_id: str, sealer: Sealer) -> "TestRunToken | None":
        """Decrypt what `seal` returned for this session; None for anything else."""
        plain = sealer.open(sealed, f"{_TOKEN} {session_id}")
        return None if plain is None else msgspec.msgpack.decode(plain, type=TestRunToken)


def begin(
    client: Client,
    session_id: str,
    redirect_uri: str,
    scope: str,
    random: Callable[[int], bytes],
    now: Instant,
    resource: str = "",
) -> TestRun:
    """Begin a test run of this client."""
    return TestRun(
        client_id=client.id,
        session_id=session_id,
        redirect_uri=redirect_uri,
        scope=scope,
        verifier=to_base64url(random(32)),
        nonce=to_base64url(random(16)),
        expires_at=later(now, LIFETIME),
        resource=resource,
    )


def callback_of(
    issuer: str, sealer: Sealer, parameters: Mapping[str, str], now: Instant
) -> TestRun | None:
    """Return the test run of an authorization request that returns to the portal, or None."""
    callback = f"{issuer}{CALLBACK}"
    if parameters.get("redirect_uri") != callback:
        return None
    found = TestRun.open(parameters.get("state", ""), sealer, now)
    if found is None or found.redirect_uri != callback:
        return None
    return found if found.client_id == parameters.get("client_id") else None


def can_be_tried(client: Client) -> bool:
    """Return whether the client uses the flow, with a secret to enter or none."""
    return client.may_use(GrantTypeName.AUTHORIZATION_CODE) and client.authentication_method in {
        AuthenticationMethod.CLIENT_SECRET,
        AuthenticationMethod.NONE,
    }


def shortened(secret: str) -> str:
    """Return the beginning of a secret, for telling it from others; it is too short to be used."""
    return secret if len(secret) <= _SHOWN else f"{secret[:_SHOWN]}…"


def claims_in(token: str) -> str:
    """Return the claims of a JWT as JSON; "" for a token by reference.

    Nothing is verified: this server issued the token a moment ago.
    """
    parts = token.split(".")
    payload = from_base64url(parts[1]) if len(parts) == 3 else None  # noqa: PLR2004 - JWS
    if payload is None:
        return ""
    return json.dumps(read_object(payload), indent=2, ensure_ascii=False)
