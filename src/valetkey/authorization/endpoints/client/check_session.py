"""GET /oauth/start and /oauth/check-session: sign-in initiated here, and the session iframe."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from msgspec import Struct

from valetkey.authorization.endpoints.authorize.pending import Server
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.url import append_query
from valetkey.web.body import read_parameters
from valetkey.web.exchange import Request, Response, html_response, see_other

_FILE = files("valetkey.authorization.endpoints.client") / "check_session.js"
_SCRIPT = _FILE.read_text(encoding="utf-8")


class StartEndpoint(Struct, frozen=True):
    """Redirects to the URL at which an app starts its sign-in."""

    server: Server

    async def get(self, request: Request) -> Response:
        """Redirect to the app with the issuer; nothing about the user is sent.

        Refused with `not_found` for an app that is unknown or disabled, or has no such address.
        """
        client_id = read_parameters(request.query).get("client_id") or ""
        client = await self.server.directory.find(client_id) if client_id else None
        if client is None or client.disabled_at or not client.openid.initiate_login_uri:
            raise Refused.because(
                ErrorCode.NOT_FOUND,
                "no app of that client_id can be opened from here",
                "start.client",
                "a client with an initiate_login_uri",
            )
        # No login_hint: it would reveal the user to an app without consent.
        issuer = (("iss", self.server.issuer),)
        return see_other(append_query(client.openid.initiate_login_uri, issuer))


class CheckSessionFrame(Struct, frozen=True):
    """The frame as bytes, and the policy that allows its one script and any embedding page."""

    body: bytes
    policy: str


def check_session_frame(cookie_name: str) -> CheckSessionFrame:
    """Return the frame that reads the session state from the cookie of this name."""
    script = _SCRIPT.replace("COOKIE", cookie_name)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    body = (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Session</title>'
        f"<script>{script}</script></html>"
    )
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors *"
    )
    return CheckSessionFrame(body.encode(), policy)


CHECK_SESSION = "/oauth/check-session"

# Lets cross-origin isolated pages embed this frame.
_FRAMEABLE = (("x-frame-options", ""), ("cross-origin-resource-policy", "cross-origin"))


class CheckSessionEndpoint(Struct, frozen=True):
    """Serves the same frame to everyone: it reads what it compares from the browser."""

    frame: CheckSessionFrame

    async def get(self, request: Request) -> Response:
        """Return the frame."""
        return html_response(self.frame.body, 200, self.frame.policy, _FRAMEABLE)
