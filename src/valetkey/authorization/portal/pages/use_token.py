"""The last steps of a test run: userinfo with the token, or the token for requests to the API."""

import json
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.developer.trial import TestRunToken
from valetkey.authorization.site.developer.app import APP, AppHead, AppRequest, member_of_app
from valetkey.authorization.site.developer.try_it.start import sent_by
from valetkey.authorization.site.page import Act, AnyPage, Outcome, Page, Show, not_found
from valetkey.kernel.keyring import Sealer
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Endpoint


class TryUserInfoPage(Struct, frozen=True):
    """The context of userinfo.html."""

    template: ClassVar[str] = "developer/try_it/userinfo.html"
    title: ClassVar[str] = translatable("Userinfo")

    app: AppHead
    status: int
    body: str
    url: str


class TryApiPage(Struct, frozen=True):
    """The context of api.html: the access token itself, and what it can do.

    `reference` is the URL of the page that sends requests with it; `minutes` is how long it works.
    """

    template: ClassVar[str] = "developer/try_it/api.html"
    title: ClassVar[str] = translatable("Requests to the API")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    token: str
    reference: str
    minutes: int
    #: Scopes with their sentences.
    scopes: tuple[tuple[str, str], ...] = ()


class UseToken(Struct, frozen=True):
    """The pages that use the access token of a test run. `userinfo` is the endpoint.

    `reference` is the URL of the page of the default API, "" if it has none.
    """

    sealer: Sealer
    issuer: str
    reference: str
    scopes: Mapping[str, str]
    userinfo: Endpoint

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, path = translatable("Try it"), f"{APP}/try"
        userinfo = Page(f"{path}/userinfo", member_of_app, act=Act(self.ask_userinfo), title=title)
        api = Page(f"{path}/api", member_of_app, act=Act(self.show_token), title=title)
        return (userinfo, api) if self.reference else (userinfo,)

    async def ask_userinfo(self, request: AppRequest) -> Outcome:
        """Show the response of the userinfo endpoint to the token."""
        bearer = (b"authorization", f"Bearer {self._token(request).token}".encode())
        asked = sent_by(request, "GET", "/oauth/userinfo", (bearer,))
        answer = await self.userinfo(asked)
        told = read_object(answer.body)
        body = answer.body.decode() if told is None else json.dumps(told, indent=2)
        url = f"{self.issuer}/oauth/userinfo"
        return Show(TryUserInfoPage(request.head, answer.status, body, url))

    async def show_token(self, request: AppRequest) -> Outcome:
        """Show the token to copy, and what it can do at the API."""
        token = self._token(request)
        minutes = max(0, token.expires_at - request.now) // 60
        scopes = tuple((name, self.scopes.get(name, "")) for name in token.scope.split())
        return Show(TryApiPage(request.head, token.token, self.reference, minutes, scopes))

    def _token(self, request: AppRequest) -> TestRunToken:
        """Return the token of this session's test run. Refused (not found) for any other."""
        sealed = request.form.get("token") or ""
        token = TestRunToken.open(sealed, request.session.id, self.sealer)
        if token is None:
            raise not_found("trial")
        return token
