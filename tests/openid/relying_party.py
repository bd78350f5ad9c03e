"""An app that trusts nobody: it registers itself, checks every byte it gets, and keeps the rules.

It is written from OpenID Connect Core and RFC 6749 alone and shares no code with the server; the
signatures are judged by another library.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

import requests
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from tests.support.wait import CEILING
from valetkey.testing.browser import Page, UserAgent

REDIRECT_URI = "https://rp.example/callback"
SECONDS = CEILING
ALWAYS = {"iss", "sub", "aud", "exp", "iat", "nonce", "auth_time", "acr", "amr", "azp", "sid"}
HASHES = {"at_hash", "c_hash", "s_hash"}
RETURNED = {
    "code": {"code"},
    "id_token": {"id_token"},
    "id_token token": {"id_token", "access_token"},
    "code id_token": {"code", "id_token"},
    "code token": {"code", "access_token"},
    "code id_token token": {"code", "id_token", "access_token"},
}
"""What each response type brings from the authorization endpoint."""


@dataclass(frozen=True)
class Answer:
    """What came back to the redirect URI, by which way."""

    page: Page
    way: str
    said: Mapping[str, str]

    @property
    def error(self) -> str:
        """The error, "" for none."""
        return self.said.get("error", "")


def read_answer(page: Page) -> Answer:
    """The answer on its way to the redirect URI: in its query, its fragment, or a form."""
    if page.location:
        parts = urlsplit(page.location)
        way = "fragment" if parts.fragment else "query"
        pairs = parse_qsl(parts.fragment or parts.query)
        return Answer(page, way, _each_once(pairs))
    (form,) = [form for form in page.forms if form.action.startswith(REDIRECT_URI)]
    assert form.method.lower() == "post"
    return Answer(page, "form_post", _each_once(form.fields))


def _each_once(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), names
    return dict(pairs)


@dataclass
class RelyingParty:
    """One registered app."""

    discovered: Mapping[str, object]
    registration: dict[str, object]
    response_type: str = "code"
    response_mode: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    @property
    def client_id(self) -> str:
        """Its id."""
        return str(self.registration["client_id"])

    @property
    def secret(self) -> str:
        """Its secret."""
        return str(self.registration.get("client_secret", ""))

    def at(self, name: str) -> str:
        """An endpoint, by its name in the discovery document."""
        return str(self.discovered[name])

    def request(self, without: tuple[str, ...] = (), /, **more: str) -> dict[str, str]:
        """The parameters of an authorization request, remembered for the checks that follow."""
        parameters = {
            "client_id": self.client_id,
            "redirect_uri": REDIRECT_URI,
            "response_type": self.response_type,
            "scope": "openid",
            "state": secrets.token_urlsafe(16),
            "nonce": secrets.token_urlsafe(16),
        }
        if self.response_mode:
            parameters["response_mode"] = self.response_mode
        parameters |= more
        self.sent = {name: value for name, value in parameters.items() if name not in without}
        return self.sent

    def ask(self, person: UserAgent, without: tuple[str, ...] = (), /, **more: str) -> Page:
        """Send the person to the provider; what they see first."""
        query = urlencode(self.request(without, **more))
        return person.open(f"{self.at('authorization_endpoint')}?{query}")

    def authenticate(
        self, person: UserAgent, without: tuple[str, ...] = (), /, **more: str
    ) -> Answer:
        """The same, with the person signing in and allowing wherever they are asked."""
        return self.go_through(person, self.ask(person, without, **more))

    def go_through(self, person: UserAgent, page: Page) -> Answer:
        """Sign in and allow as asked, until the answer is on its way."""
        if any(button.id == "sign-in" for button in page.buttons):
            page = person.sign_in(page, "ada", PASSWORD)
        if any(button.id == "allow" for button in page.buttons):
            page = person.allow(page)
        return self.receive(page)

    def receive(self, page: Page) -> Answer:
        """The answer, after the checks that hold for every answer."""
        answer = read_answer(page)
        assert answer.way == self.way, (answer.way, self.way)
        assert answer.said.get("state") == self.sent.get("state")
        assert answer.said.get("iss") == self.discovered["issuer"]
        if answer.error:
            description = answer.said.get("error_description", "")
            assert description.isascii()
            assert description.isprintable()
        return answer

    @property
    def way(self) -> str:
        """How the answer must come (Multiple Response Types section 2.1)."""
        usual = "query" if self.response_type == "code" else "fragment"
        return self.sent.get("response_mode", usual)

    def redeem(self, code: str, **more: str) -> requests.Response:
        """Exchange a code."""
        return self.token(
            {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI} | more
        )

    def refresh(self, token: str, **more: str) -> requests.Response:
        """Exchange a refresh token."""
        return self.token({"grant_type": "refresh_token", "refresh_token": token} | more)

    def token(self, form: Mapping[str, str]) -> requests.Response:
        """Ask the token endpoint, as registered."""
        method = self.registration.get("token_endpoint_auth_method", "client_secret_basic")
        basic = (self.client_id, self.secret) if method == "client_secret_basic" else None
        fields = dict(form)
        if method == "client_secret_post":
            fields |= {"client_id": self.client_id, "client_secret": self.secret}
        return requests.post(self.at("token_endpoint"), fields, auth=basic, timeout=SECONDS)

    def tokens(self, answer: Answer) -> dict[str, object]:
        """Everything the flow gives in the end, ID tokens checked: the newest of each kind."""
        assert not answer.error, answer.said
        assert RETURNED[self.response_type] <= set(answer.said)
        got: dict[str, object] = {}
        code, access_token = answer.said.get("code", ""), answer.said.get("access_token", "")
        if access_token:
            assert answer.said["token_type"].lower() == "bearer"
            assert int(answer.said["expires_in"]) > 0
            got["access_token"] = access_token
        assert "refresh_token" not in answer.said
        if "id_token" in answer.said:
            front = self.check_id_token(
                answer.said["id_token"], front=True, code=code, access_token=access_token
            )
            got |= {"id_token": answer.said["id_token"], "claims": front}
        if code:
            response = self.redeem(code)
            assert response.status_code == requests.codes.ok, response.text
            assert response.headers["cache-control"] == "no-store"
            body = response.json()
            claims = self.check_id_token(body["id_token"], access_token=body["access_token"])
            if "claims" in got:
                before = got["claims"]
                assert isinstance(before, dict)
                assert (before["iss"], before["sub"]) == (claims["iss"], claims["sub"])
            got |= body
            got["claims"] = claims
        return got

    def check_id_token(
        self,
        text: str,
        *,
        front: bool = False,
        code: str = "",
        access_token: str = "",
        nonce: bool = True,
    ) -> dict[str, object]:
        """The claims, after every check of Core sections 3.1.3.7, 3.2.2.11 and 3.3.2.11."""
        header = json.loads(_decoded(text.split(".", maxsplit=1)[0]))
        algorithm = self.registration.get("id_token_signed_response_alg", "RS256")
        assert header["alg"] == algorithm
        claims: dict[str, object] = jwt.decode(text, self._keys(header), [str(algorithm)]).claims
        now = int(time.time())
        assert claims["iss"] == self.discovered["issuer"]
        assert claims["aud"] == self.client_id or claims["aud"] == [self.client_id]
        assert isinstance(claims["sub"], str)
        assert 0 < len(claims["sub"]) <= 255
        assert isinstance(claims["exp"], int)
        assert isinstance(claims["iat"], int)
        assert isinstance(claims["auth_time"], int)
        assert claims["exp"] > now
        assert abs(claims["iat"] - now) < 60 * 60 * 24
        if nonce:
            assert claims.get("nonce") == self.sent.get("nonce")
        self._check_hash(claims, "c_hash", code, needed=front and bool(code))
        self._check_hash(claims, "at_hash", access_token, needed=front and bool(access_token))
        return claims

    def _check_hash(
        self, claims: Mapping[str, object], name: str, value: str, *, needed: bool
    ) -> None:
        if needed:
            assert name in claims
        if name in claims:
            assert value, f"{name} without what it is of"
            digest = hashlib.sha256(value.encode("ascii")).digest()
            half = base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
            assert claims[name] == half

    def _keys(self, header: Mapping[str, object]) -> KeySet | OctKey:
        if str(header["alg"]).startswith("HS"):
            return OctKey.import_key(self.secret)
        document = requests.get(self.at("jwks_uri"), timeout=SECONDS).json()
        kids = [key["kid"] for key in document["keys"]]
        assert len(kids) == len(set(kids))
        assert header["kid"] in kids
        return KeySet.import_key_set(document)

    def userinfo(self, access_token: str, method: str = "GET") -> dict[str, object]:
        """What the provider says of the person."""
        response = requests.request(
            method,
            self.at("userinfo_endpoint"),
            headers={"authorization": f"Bearer {access_token}"},
            timeout=SECONDS,
        )
        assert response.status_code == requests.codes.ok, response.text
        assert response.headers["content-type"].split(";")[0] == "application/json"
        claims: dict[str, object] = response.json()
        assert claims["sub"]
        return claims


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


PASSWORD = "correct horse battery staple"
