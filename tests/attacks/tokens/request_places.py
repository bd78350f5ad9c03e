"""Places at the authorization endpoint that take a JWT: request objects and id_token_hint."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import requests

from tests.attacks.tokens.jose import Claims
from tests.support.live import CALLBACK, LiveServers
from valetkey.kernel.jose.key import SigningKey

_TAKEN = "login_required"


@dataclass
class RequestObjects:
    """The `request` of `pk1`, signed with its key."""

    world: LiveServers
    key: SigningKey
    typ: str = "oauth-authz-req+jwt"
    is_ours: bool = False

    def claims(self) -> Claims:
        """A whole request, for a person who is not asked anything."""
        now = self.world.servers.clock.now()
        return {
            "iss": "pk1",
            "aud": self.world.auth,
            "iat": now,
            "exp": now + 60,
            "response_type": "code",
            "client_id": "pk1",
            "redirect_uri": CALLBACK,
            "scope": "notes:read",
            "prompt": "none",
        }

    def takes(self, token: str) -> bool:
        """`login_required` for one that is read, an error of request objects for any other."""
        error = _asked(self.world, client_id="pk1", request=token)
        assert error in {_TAKEN, "invalid_request_object", "request_not_supported"}
        return error == _TAKEN


@dataclass
class Hints:
    """The `id_token_hint` of `web1`: an ID token of this server."""

    world: LiveServers
    key: SigningKey
    typ: str = "JWT"
    is_ours: bool = True

    def claims(self) -> Claims:
        """What an ID token says."""
        now = self.world.servers.clock.now()
        return {"iss": self.world.auth, "aud": "web1", "sub": "1001", "iat": now, "exp": now + 60}

    def takes(self, token: str) -> bool:
        """`login_required` for one that is read, `invalid_request` for any other."""
        error = _asked(self.world, client_id="web1", prompt="none", id_token_hint=token)
        assert error in {_TAKEN, "invalid_request"}
        return error == _TAKEN


def _asked(world: LiveServers, **changes: str) -> str:
    """The error that the app is told when nobody is signed in."""
    form = {"response_type": "code", "redirect_uri": CALLBACK, "scope": "notes:read", **changes}
    answer = requests.post(f"{world.auth}/oauth/authorize", form, allow_redirects=False, timeout=60)
    while answer.headers["location"].startswith("/"):
        # The form became an address, which the browser opens with its cookies.
        answer = requests.get(
            world.auth + answer.headers["location"], allow_redirects=False, timeout=60
        )
    return parse_qs(urlsplit(answer.headers["location"]).query)["error"][0]
