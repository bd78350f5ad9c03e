"""GET /oauth/check-session: the session iframe for apps (Session Management 1.0)."""

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from valetkey.web.exchange import Request, Response, html_response

_FILE = files("valetkey.authorization.endpoints.openid") / "check_session.js"
_SCRIPT = _FILE.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class CheckSessionFrame:
    """The frame as bytes, and the policy under which its one script runs and anyone frames it."""

    body: bytes
    policy: str


def check_session_frame(cookie_name: str) -> CheckSessionFrame:
    """The frame that reads the mark of the session from the cookie of this name."""
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


@dataclass(frozen=True, slots=True)
class CheckSessionEndpoint:
    """Serves the same frame to everyone: it reads what it compares from the browser."""

    frame: CheckSessionFrame

    async def get(self, request: Request) -> Response:
        """Return the frame."""
        return html_response(self.frame.body, 200, self.frame.policy, _FRAMEABLE)
