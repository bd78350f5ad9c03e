"""/oauth/logout: sign-out requested by an app (RP-Initiated Logout 1.0)."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.logout import (
    PARAMETERS,
    LogoutDecision,
    LogoutRequest,
    NotRedirected,
    judge,
)
from valetkey.authorization.site.page import Act, AnyPage, Page, Visit
from valetkey.authorization.site.sign_out.sign_out import (
    LeavePages,
    SignOutRequest,
    SignOutTarget,
    leaving,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import encode_pairs
from valetkey.web.exchange import Interrupt, see_other
from valetkey.web.form import Form, read_query

LOGOUT = "/oauth/logout"

_LONGEST = 7_000
_WRONG = {
    NotRedirected.HINT: "id_token_hint is not an ID token that this server issued to this app",
    NotRedirected.APP: "id_token_hint and client_id name different apps",
    NotRedirected.UNKNOWN_APP: "no registered app is named by id_token_hint or client_id",
    NotRedirected.ADDRESS: "post_logout_redirect_uri is not one that the app registered",
    NotRedirected.STATE: "state is too long or contains control characters",
}


@dataclass(frozen=True, slots=True)
class Logout:
    """The end session endpoint (RP-Initiated Logout). It always asks the user first."""

    server: Server
    leave: LeavePages

    def pages(self) -> tuple[AnyPage, ...]:
        """Show the sign-out page. A form post of another site is treated as a link."""
        show = self.leave.show
        act = Act(show, opaque=PARAMETERS, foreign=True)
        return (Page(LOGOUT, self._asked, show, act, head=False),)

    async def _asked(self, visit: Visit) -> SignOutRequest:
        """Judge the request of the app; without a user, `show` redirects back to it.

        Browsers do not send our cookies with a form of another site, so a visitor without a session
        is redirected to GET, with which they are sent.
        """
        form = visit.form()
        if form is None:
            form = read_query(visit.request.query, opaque=PARAMETERS)
        elif not self.server.cookies.session(visit.request):
            pairs = [(name, form.get(name) or "") for name in PARAMETERS if form.get(name)]
            url = f"{LOGOUT}?{encode_pairs(pairs)}"
            raise Interrupt(see_other(url if len(url) <= _LONGEST else LOGOUT))
        return await leaving(visit, await self._way(form, visit.request.at))

    async def _way(self, form: Form, now: Instant) -> SignOutTarget:
        said = {name: form.get(name) or "" for name in PARAMETERS}
        decision = await self._judge(LogoutRequest.of(said), now)
        client, reason = decision.client, decision.unreturned
        name = "" if client is None else client.name or client.id
        if reason is None:
            return SignOutTarget(name, decision.returns_to)
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
            at=now,
            client_id=None if client is None else client.id,
        )
        return SignOutTarget(name, "", reason.value, reference)

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
