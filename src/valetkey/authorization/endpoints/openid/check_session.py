"""GET /oauth/check-session: the session iframe for apps (Session Management 1.0)."""

from dataclasses import dataclass

from valetkey.authorization.pages.authorize.check_session import CheckSessionFrame
from valetkey.web.exchange import Request, Response, html_response

CHECK_SESSION = "/oauth/check-session"

# Lets cross-origin isolated pages embed this frame.
_FRAMEABLE = (("x-frame-options", ""), ("cross-origin-resource-policy", "cross-origin"))


@dataclass(frozen=True, slots=True)
class CheckSessionEndpoint:
    """Serves the same frame to everyone: it reads what it compares from the browser."""

    frame: CheckSessionFrame

    async def get(self, request: Request) -> Response:
        """Return the frame."""
        return html_response(self.frame.body, 200, self.frame.policy, _FRAMEABLE)
