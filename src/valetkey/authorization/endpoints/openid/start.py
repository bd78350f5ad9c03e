"""GET /oauth/start: a sign-in initiated here (OpenID Connect Core section 4)."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import append_query
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class StartEndpoint:
    """Redirects to the address where an app starts its sign-in."""

    server: Server

    async def get(self, request: Request) -> Response:
        """Redirect to the app with the issuer; nothing about the user is sent.

        Refused with `not_found` for an app that is unknown or disabled, or has no such address.
        """
        client_id = read_query(request.query).get("client_id") or ""
        client = await self.server.directory.find(client_id) if client_id else None
        if client is None or client.disabled_at or not client.openid.initiate_login_uri:
            raise Refused(
                Refusal(
                    ErrorCode.NOT_FOUND,
                    "no app of that client_id can be opened from here",
                    "start.client",
                    "a client with an initiate_login_uri",
                )
            )
        # No login_hint: it would reveal the user to an app without consent.
        issuer = (("iss", self.server.issuer),)
        return see_other(append_query(client.openid.initiate_login_uri, issuer))
