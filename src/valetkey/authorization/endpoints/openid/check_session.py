"""GET /oauth/check-session: the frame that apps ask about the session (Session Management 1.0)."""

from dataclasses import dataclass

from valetkey.authorization.pages.authorize.check_session import CheckSessionFrame
from valetkey.web.exchange import Request, Response, html_response

CHECK_SESSION = "/oauth/check-session"

# An app's page may be isolated from others, and must still be able to hold this one.
_FRAMEABLE = (("x-frame-options", ""), ("cross-origin-resource-policy", "cross-origin"))


@dataclass(frozen=True, slots=True)
class CheckSessionEndpoint:
    """The same for everybody: what it compares, it reads from the browser itself."""

    frame: CheckSessionFrame

    async def get(self, request: Request) -> Response:
        """The frame."""
        return html_response(self.frame.body, 200, self.frame.policy, _FRAMEABLE)
