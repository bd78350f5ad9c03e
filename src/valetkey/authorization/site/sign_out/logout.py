"""GET and POST /oauth/logout: sign-out requested by an app (RP-Initiated Logout 1.0)."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.logout import (
    PARAMETERS,
    LogoutDecision,
    LogoutRequest,
    Unreturned,
    judge,
)
from valetkey.authorization.site.sign_out.sign_out import SignOutEndpoint, WayOut
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import encode_pairs
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import Form, read_form, read_query

LOGOUT = "/oauth/logout"

_LONGEST = 7_000
_WRONG = {
    Unreturned.HINT: "id_token_hint is not an ID token that this server issued to this app",
    Unreturned.APP: "id_token_hint and client_id name different apps",
    Unreturned.UNKNOWN_APP: "no registered app is named by id_token_hint or client_id",
    Unreturned.ADDRESS: "post_logout_redirect_uri is not one that the app registered",
    Unreturned.STATE: "state is too long or holds control characters",
}


@dataclass(frozen=True, slots=True)
class LogoutEndpoint:
    """The end session endpoint. It asks the user, whatever the app sent."""

    server: Server
    sign_out: SignOutEndpoint

    async def get(self, request: Request) -> Response:
        """Ask whether to sign out; if no user is signed in, redirect back to the app."""
        return await self._ask(request, read_query(request.query, opaque=PARAMETERS))

    async def post(self, request: Request) -> Response:
        """Accept the same request as a form.

        Browsers do not send our cookies with a form of another site, so a visitor without a session
        is redirected to GET, with which they are sent.
        """
        form = read_form(request.body, opaque=PARAMETERS)
        if self.server.cookies.session(request):
            return await self._ask(request, form)
        pairs = [(name, form.get(name) or "") for name in PARAMETERS if form.get(name)]
        url = f"{LOGOUT}?{encode_pairs(pairs)}"
        return see_other(url if len(url) <= _LONGEST else LOGOUT)

    async def _ask(self, request: Request, form: Form) -> Response:
        said = {name: form.get(name) or "" for name in PARAMETERS}
        leaving = await self._judge(LogoutRequest.of(said), request.at)
        client, reason = leaving.client, leaving.unreturned
        name = "" if client is None else client.name or client.id
        if reason is None:
            return await self.sign_out.ask(request, WayOut(name, leaving.returns_to))
        refusal = Refusal(
            ErrorCode.INVALID_REQUEST,
            _WRONG[reason],
            f"logout.{reason}",
            "" if client is None else " or ".join(client.openid.post_logout_redirect_uris),
            said["post_logout_redirect_uri"],
        )
        reference = self.server.decisions.put(
            refusal,
            endpoint=LOGOUT,
            at=request.at,
            client_id=None if client is None else client.id,
        )
        return await self.sign_out.ask(request, WayOut(name, "", reason.value, reference))

    async def _judge(self, asked: LogoutRequest, now: Instant) -> LogoutDecision:
        client = await self._only_client(asked)
        good = client is not None and await self._is_good(asked.id_token_hint, client, now)
        return judge(asked, client, hint_is_good=good)

    async def _only_client(self, asked: LogoutRequest) -> Client | None:
        named = tuple(asked.named_clients)
        if len(named) != 1:
            return None
        client = await self.server.directory.find(named[0])
        return None if client is None or client.disabled_at is not None else client

    async def _is_good(self, hint: str, client: Client, now: Instant) -> bool:
        if not hint:
            return False
        try:
            await self.server.hints.read(hint, client, now)
        except Refused:
            return False
        return True
