"""Client: always returns a live token, shared by any number of threads and processes."""

import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Literal

from valetkey.kernel.jose.key import SigningKey
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.token_endpoint import (
    WAIT,
    Show,
    Signer,
    TokenEndpoint,
    open_browser,
    sign_in,
)
from valetkey.sdk.client.token_file import DeviceCodes, Rejected, SignInNeeded, TokenFile, Tokens
from valetkey.sdk.fetch import Unreachable
from valetkey.sdk.upstream.discovery import Issuer

AssertedBy = Literal["id_token", "refresh_token"]
"""What proves to the issuer that a user signed in."""

_ENDED = "invalid_grant"
_NOT_YET = frozenset({"authorization_pending", "slow_down"})
_SLOWER = 5  # seconds (RFC 8628 section 3.5)


class Client:
    """One client of one issuer: signs a user in, or uses its own credentials, and renews.

    Its methods block. From asynchronous code call them with `asyncio.to_thread`.
    """

    def __init__(
        self,
        issuer: Issuer | str,
        client_id: str,
        *,
        secret: Secret | None = None,
        key: SigningKey | None = None,
        scope: str = "",
        file: Path | None = None,
        resource: str = "",
        tls: ssl.SSLContext | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """Act as `client_id`; a string issuer is the URL of a Valetkey authorization server.

        A confidential client has a `secret`, or a private `key` whose public half is registered.
        With `file` tokens outlive the program, and all clients with that file share them. `scope`
        is the requested scope, names separated by spaces; `resource` is the API (RFC 8707), if the
        issuer requires it; `tls` is the trust for connections to the issuer.
        """
        self.issuer = Issuer.valetkey(issuer) if isinstance(issuer, str) else issuer
        if secret is not None and key is not None:
            raise ValueError("a client has a secret or a key, not both")
        url, random = self.issuer.url, runtime.random
        signer = None if key is None else Signer(url, client_id, key, random)
        self._endpoint = TokenEndpoint(self.issuer.token, client_id, secret, resource, tls, signer)
        self._scope = scope
        self._file = None if file is None else TokenFile(file, self.issuer.url, client_id)
        self._runtime = runtime
        self._lock = Lock()
        self._tokens: Tokens | None = None

    def sign_in(self, *, show: Show = open_browser, wait: float = WAIT, port: int = 0) -> Tokens:
        """Sign a user in; `show` receives the address, `print` for example.

        The redirect URI is `http://127.0.0.1:<port>/callback`; 0 is any port. Raises Rejected if
        the user or server refuses, TimeoutError if the browser did not return in `wait` seconds,
        and Unreachable.
        """
        tokens = sign_in(
            self.issuer,
            self._endpoint,
            self._runtime,
            scope=self._scope,
            show=show,
            wait=wait,
            port=port,
        )
        with self._lock, self._exclusive():
            self._keep(tokens)
        return tokens

    def sign_in_on_device(
        self, show: Callable[[DeviceCodes], object], *, sleep: Callable[[float], object] = sleep
    ) -> Tokens:
        """Sign a user in who enters a code on another device (RFC 8628).

        `show` tells the user the code and the address. Polls every `interval` seconds, 5 seconds
        slower each time the server says `slow_down`. Raises Rejected if the user or server refuses
        or the code expires, and Unreachable if no code can be requested.
        """
        now = self._runtime.now()
        codes = self._endpoint.device_codes(self.issuer.device, scope=self._scope, now=now)
        show(codes)
        tokens = self._polled(codes, sleep)
        with self._lock, self._exclusive():
            self._keep(tokens)
        return tokens

    def _polled(self, codes: DeviceCodes, sleep: Callable[[float], object]) -> Tokens:
        interval, until = max(codes.interval, 1), self._runtime.now() + codes.expires_in
        while True:
            sleep(interval)
            now, code = self._runtime.now(), Secret(codes.device_code)
            try:
                return self._endpoint.with_device_code(code, scope=self._scope, now=now)
            except Rejected as rejected:
                if rejected.code not in _NOT_YET or now >= until:
                    raise
                interval += _SLOWER if rejected.code == "slow_down" else 0
            except Unreachable:
                if now >= until:
                    raise
                interval += _SLOWER

    def exchange(self, token: Secret, *, scope: str = "", actor: Secret | None = None) -> Tokens:
        """Exchange a user's access token for one of this client, never wider (RFC 8693).

        With `actor`, this client's own token, the new one says who acts for the user. The result is
        not kept. Raises Rejected and Unreachable.
        """
        return self._endpoint.exchange(token, actor, scope=scope, now=self._runtime.now())

    def identity_assertion(
        self, token: Secret, *, audience: str, scope: str = "", kind: AssertedBy = "id_token"
    ) -> Secret:
        """Get an assertion about a user for another authorization server, `audience` (ID-JAG).

        `token` is the user's ID token for this client, or with `kind="refresh_token"` their refresh
        token. The client's `resource` is the API. Raises Rejected and Unreachable.
        """
        now = self._runtime.now()
        return self._endpoint.identity_assertion(
            token, kind, audience=audience, scope=scope, now=now
        )

    def with_assertion(self, assertion: Secret, *, scope: str = "") -> Tokens:
        """Get tokens for the user of another server's assertion (ID-JAG), once for each.

        The result is not kept. Raises Rejected and Unreachable.
        """
        return self._endpoint.with_assertion(assertion, scope=scope, now=self._runtime.now())

    def access_token(self) -> Secret:
        """Return a live access token, renewed before it expires by exactly one concurrent caller.

        Without a refresh token, a client with a secret uses the client credentials grant, and one
        with a key an assertion of its own (RFC 7523 section 2.1). Raises SignInNeeded if a user has
        to sign in, Rejected, and Unreachable once the old token has expired.
        """
        now = self._runtime.now()
        tokens = self._tokens
        if tokens is None or not tokens.is_fresh(now):
            with self._lock:
                tokens = self._fresh(now)
        return tokens.access_token

    def headers(self) -> dict[str, str]:
        """Return the header of a request with a live token; raises as `access_token`."""
        return {"Authorization": f"Bearer {self.access_token().reveal()}"}

    def forget(self) -> None:
        """Forget the tokens, here and in the file; the issuer does not revoke them."""
        with self._lock, self._exclusive():
            self._drop()

    def _fresh(self, now: Instant) -> Tokens:
        with self._exclusive():
            # Another thread or process may have renewed it first.
            tokens = self._tokens if self._file is None else self._file.read()
            if tokens is not None and tokens.is_fresh(now):
                self._tokens = tokens
                return tokens
            try:
                renewed = self._renew(tokens, now)
            except Unreachable:
                if tokens is None or not tokens.is_live(now):
                    raise
                return tokens
            self._keep(renewed)
            return renewed

    def _renew(self, tokens: Tokens | None, now: Instant) -> Tokens:
        if tokens is not None and tokens.refresh_token is not None:
            scope = tokens.scope
            try:
                return self._endpoint.with_refresh_token(tokens.refresh_token, scope=scope, now=now)
            except Rejected as rejected:
                if rejected.code != _ENDED:
                    raise
                # The refresh token will not work again, so it is not retried.
                self._drop()
                raise SignInNeeded("the sign-in has ended: sign in again") from rejected
        if self._endpoint.secret is not None or self._endpoint.signer is not None:
            return self._endpoint.for_itself(scope=self._scope, now=now)
        raise SignInNeeded("no user has signed in yet")

    def _exclusive(self) -> AbstractContextManager[None]:
        return nullcontext() if self._file is None else self._file.locked()

    def _keep(self, tokens: Tokens) -> None:
        self._tokens = tokens
        if self._file is not None:
            self._file.write(tokens)

    def _drop(self) -> None:
        self._tokens = None
        if self._file is not None:
            self._file.remove()
