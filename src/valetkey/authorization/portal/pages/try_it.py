"""Example programs with the client id of an app, and its authorization code flow step by step."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from msgspec import Struct
from msgspec.structs import astuple

from valetkey.authorization.actions.inspection.refusals import plain_reference
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.model.client import CLIENT_SCOPE, Client
from valetkey.authorization.portal.rules.apps import (
    CALLBACK,
    TestRun,
    TestRunToken,
    begin,
    can_be_tried,
    claims_in,
    shortened,
)
from valetkey.authorization.portal.rules.quickstart import (
    Choice,
    Quickstart,
    Quickstarts,
    plain_program,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.site.app_team import (
    APP,
    INTEGRATION,
    AppHead,
    AppRequest,
    member_of,
    member_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.keyring import Keyring, Sealer
from valetkey.kernel.moment import Lifetime, later
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.text import translatable
from valetkey.kernel.url import append_query
from valetkey.web.body import read_parameters
from valetkey.web.exchange import Endpoint, Headers, Request, Response

_TOKEN = "/oauth/token"
_METADATA = "/.well-known/openid-configuration"


class ChoiceLine(Choice, frozen=True, kw_only=True):
    """A choice and its page."""

    url: str
    is_current: bool


def choice_lines(path: str, choices: Sequence[Choice], chosen: str) -> tuple[ChoiceLine, ...]:
    """Return the choices as links to the page at `path`."""
    return tuple(
        ChoiceLine(
            *astuple(choice), url=f"{path}?in={choice.name}", is_current=choice.name == chosen
        )
        for choice in choices
    )


class QuickstartPage(Struct, frozen=True):
    """The context of quickstart.html; `quickstart` is None if the app has none."""

    template: ClassVar[str] = "portal/pages/quickstart.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    issuer: str
    #: The URLs of this server that a library may ask for.
    addresses: tuple[tuple[str, str], ...]
    choices: tuple[ChoiceLine, ...] = ()
    quickstart: Quickstart | None = None
    #: The page of the default API that describes it and sends requests, "" for none.
    reference: str = ""
    #: The flow can be run in the browser.
    can_be_tried: bool = True


class QuickstartPages(Struct, frozen=True):
    """Show the way from the framework of an app to its first sign-in."""

    quickstarts: Quickstarts
    reference: str = ""

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, path = translatable("Quickstart"), f"{APP}/quickstart"
        docs = "how-to/people/sign-in-with-valetkey.html"
        return (
            Page(path, member_of_app, self.show, title=title, nav=INTEGRATION, docs=docs),
            Page(f"{APP}/start", member_of_app, self.move, title=title, under=path),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the quickstart of the preset or program that `in` names, or of the likely one."""
        head, client, offered = request.head, request.client, self.quickstarts
        chosen = offered.chosen(client, request.query.get("in") or "")
        path, issuer, api = head.at("quickstart"), offered.issuer, offered.api
        return Show(
            QuickstartPage(
                head,
                issuer,
                (
                    (translatable("Authorization endpoint"), f"{issuer}{AUTHORIZE}"),
                    (translatable("Token endpoint"), f"{issuer}{_TOKEN}"),
                    (translatable("Metadata"), f"{issuer}{_METADATA}"),
                    *((("API", api),) if api else ()),
                ),
                choice_lines(path, offered.choices_of(client), chosen),
                offered.quickstart(client, chosen) if chosen else None,
                self.reference,
                can_be_tried(client),
            )
        )

    async def move(self, request: AppRequest) -> Outcome:
        """Redirect from the former page of first requests to the quickstart of its program."""
        program = plain_program(request.query.get("in") or "")
        path = request.head.at("quickstart")
        return SeeOther(f"{path}?in={program}" if program else path)


_APIS = 100
_SECRET = frozenset({"code", "state", "code_verifier", "client_secret"})


class ApiChoice(Struct, frozen=True):
    """An API that can be chosen, with its scopes: value in the form, and name."""

    identifier: str
    name: str
    scopes: tuple[tuple[str, str], ...]


class Parameter(Struct, frozen=True):
    """One parameter or member of a message; a secret `value` is shortened."""

    name: str
    value: str


class Token(Struct, frozen=True):
    """One token of a response: its beginning, and its claims, "" for an opaque one."""

    name: str
    value: str
    claims: str = ""
    #: The API that an access token is for.
    audience: str = ""


def apis_of(tx: Transaction, client: Client) -> tuple[ApiChoice, ...]:
    """Return the declared APIs that the client may ask for, by identifier, at most 100."""
    return tuple(
        ApiChoice(
            api.identifier, api.name, tuple((api.qualified(name), name) for name in api.scopes)
        )
        for api in tx.apis.page("", _APIS)
        if api.admits(client)
    )


def parameters_in(landed: str) -> dict[str, str]:
    """Return the query parameters of a pasted URL, which are untrusted."""
    try:
        query = urlsplit(landed.strip()).query
        return dict(parse_qsl(query, strict_parsing=True, errors="strict", max_num_fields=50))
    except ValueError:
        return {}


def masked(name: str, value: str) -> str:
    """Return the value to show, shortened if the parameter is a secret."""
    return shortened(value) if name in _SECRET else value


def shown_token(name: str, value: object, audience: str) -> Token:
    """Return a token to show: its beginning and claims, and the API of an access token."""
    text = str(value)
    claims = claims_in(text) if name != "refresh_token" else ""
    return Token(name, shortened(text), claims, audience if name == "access_token" else "")


def explained_at(head: AppHead, error_uri: object) -> str:
    """Return the URL of the failed request that an `error_uri` refers to; "" for none."""
    parameters = parameters_in(error_uri) if isinstance(error_uri, str) else {}
    reference = plain_reference(parameters.get("reference", ""))
    return f"{head.at('failures')}/{reference}" if reference else ""


def sent_by(
    request: AppRequest,
    method: str,
    path: str,
    headers: tuple[tuple[bytes, bytes], ...],
    body: bytes = b"",
) -> Request:
    """Return a request of the same origin to another endpoint of this server."""
    came = request.request
    return Request(
        method,
        path,
        headers=Headers(headers),
        body=body,
        address=came.address,
        secure=came.secure,
        at=came.at,
    )


_FORM = (b"content-type", b"application/x-www-form-urlencoded")
_BASIC = "client_secret_basic"
_TOKENS = ("access_token", "refresh_token", "id_token")
_LONGEST = 8_000
_ANSWERS = ("code", "state", "iss", "error", "error_description", "error_uri")
_BAD_REQUEST = 400
_DOCS = "reference/authorization-request.html"

_NOT_AN_ANSWER = translatable(
    "This is not the response to this request: its state is missing or different."
)


class TryPage(Struct, frozen=True):
    """The context of begin.html. Its form posts `csrf`, `redirect_uri`, `resource` and `scope`."""

    template: ClassVar[str] = "portal/pages/begin.html"

    app: AppHead
    action: str
    callback: str
    redirect_uris: tuple[str, ...]
    scopes: tuple[str, ...]
    #: Declared APIs that the app may ask for.
    apis: tuple[ApiChoice, ...] = ()
    #: The app uses the flow, and authenticates by a secret or not at all.
    possible: bool = True
    nothing_chosen: bool = False


class TryRequestPage(Struct, frozen=True):
    """The context of request.html, the first step. Its form posts `csrf`, `trial` and `landed`.

    `url` is the request; with `pasted` the answer goes to the app's own address and is pasted.
    """

    template: ClassVar[str] = "portal/pages/request.html"
    title: ClassVar[str] = translatable("The request")
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    app: AppHead
    action: str
    trial: str
    url: str
    parameters: tuple[Parameter, ...]
    pasted: bool
    redirect_uri: str
    #: The pasted text that is no response to this request.
    landed: str = ""
    fault: str = ""


class TryAnswerPage(Struct, frozen=True):
    """The context of answer.html, the second step.

    Its form posts `csrf`, `trial`, `code` and `client_secret`.
    """

    template: ClassVar[str] = "portal/pages/answer.html"
    title: ClassVar[str] = translatable("Response")
    scripts: ClassVar[tuple[str, ...]] = ("show.js",)

    app: AppHead
    action: str
    trial: str
    code: str
    parameters: tuple[Parameter, ...]
    #: The token request as it will be sent.
    request: tuple[Parameter, ...]
    needs_secret: bool
    #: The page that explains the error, "" for none.
    explained: str = ""


class TryTokensPage(Struct, frozen=True):
    """The context of tokens.html, the third step. Its forms post `csrf` and `token`."""

    template: ClassVar[str] = "portal/pages/tokens.html"
    title: ClassVar[str] = translatable("The tokens")

    app: AppHead
    status: int
    request: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    tokens: tuple[Token, ...] = ()
    #: The access token, sealed, for the fourth step; "" where that is not possible.
    token: str = ""
    #: The fourth steps that are possible with it.
    for_userinfo: bool = False
    for_api: bool = False
    explained: str = ""


class TryIt(Struct, frozen=True):
    """Run the flow until the tokens. `token` is the token endpoint.

    `has_reference` says whether the default API has a page that sends requests.
    """

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]
    audience: str
    scopes: Mapping[str, str]
    issuer: str
    token: Endpoint
    has_reference: bool = True

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, path, under = translatable("Try it"), f"{APP}/try", f"{APP}/quickstart"
        begin = Act(self.begin, multiple=("scope",))
        exchange = Act(self.exchange, opaque=("code", "client_secret"))

        def step(name: str, act: Act[AppRequest]) -> AnyPage:
            return Page(f"{path}/{name}", member_of_app, act=act, title=title, under=under)

        return (
            Page(path, member_of_app, self.show, begin, title=title, under=under, docs=_DOCS),
            step("answer", Act(self.read_pasted, opaque=("landed",))),
            step("exchange", exchange),
            Page(CALLBACK, _app_of_answer, self.catch, title=title, under=under),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Choose the redirect URI, the API and the scopes."""
        return await self._begin(request)

    async def begin(self, request: AppRequest) -> Outcome:
        """Show the authorization request, ready to be sent."""
        client, form = request.client, request.form
        ticked, resource = form.all("scope"), form.get("resource") or ""
        api = next(
            (
                candidate
                for candidate in await self.store.read(lambda tx: apis_of(tx, client))
                if candidate.identifier == resource
            ),
            None,
        )
        if resource and api is None:
            raise not_found("API")
        chosen = [name for name in self._scopes(client) if name in ticked]
        if api is not None:
            # Scopes of the default API are invalid at another.
            chosen = [name for name in chosen if name in IDENTITY_SCOPES]
            chosen += [name for value, name in api.scopes if value in ticked]
        redirect_uri = form.get("redirect_uri") or ""
        if redirect_uri != self._callback and redirect_uri not in client.redirect_uris:
            raise not_found("redirect URI")
        nothing = not chosen and (api is None or api.scopes)
        if nothing or not can_be_tried(client):
            return await self._begin(request, nothing_chosen=True)
        session, random = request.session.id, self.random
        scope = " ".join(chosen)
        trial = begin(client, session, redirect_uri, scope, random, request.now, resource)
        return self._request(request, trial, trial.seal(self.keyring.sealer, random))

    async def read_pasted(self, request: AppRequest) -> Outcome:
        """Show the response in the URL that was pasted."""
        state = request.form.get("trial") or ""
        trial = self._open(state, request)
        landed = (request.form.get("landed") or "")[:_LONGEST]
        parameters = parameters_in(landed)
        if parameters.get("state") != state:
            return self._request(request, trial, state, landed)
        return self._answer(request, state, parameters)

    async def catch(self, request: AppRequest) -> Outcome:
        """Show the response that arrived at this server's own redirect URI."""
        query = read_parameters(request.request.query, opaque=_ANSWERS)
        parameters = {name: value for name in _ANSWERS if (value := query.get(name))}
        return self._answer(request, query.get("state") or "", parameters)

    async def exchange(self, request: AppRequest) -> Outcome:
        """Exchange the code; show the tokens or the error."""
        trial, head = self._open(request.form.get("trial") or "", request), request.head
        sent, answer = await self._send(request, trial)
        members = read_object(answer.body) or {}
        access, scope = members.get("access_token"), str(members.get("scope", ""))
        sealed = ""
        # Userinfo and the API's own page take tokens of the default API only.
        if trial.resource == "" and isinstance(access, str):
            seconds = members.get("expires_in")
            lifetime = Lifetime(seconds if isinstance(seconds, int) else 0)
            token = TestRunToken(access, scope, later(request.now, lifetime))
            sealed = token.seal(request.session.id, self.keyring.sealer, self.random)
        return Show(
            TryTokensPage(
                head,
                answer.status,
                request=sent,
                parameters=tuple(
                    Parameter(name, value if isinstance(value, str) else json.dumps(value))
                    for name, value in members.items()
                    if name not in _TOKENS
                ),
                tokens=tuple(
                    shown_token(name, members[name], trial.resource or self.audience)
                    for name in _TOKENS
                    if name in members
                ),
                token=sealed,
                for_userinfo="openid" in scope.split(),
                for_api=self.has_reference,
                explained=explained_at(head, members.get("error_uri")),
            )
        )

    @property
    def _callback(self) -> str:
        return f"{self.issuer}{CALLBACK}"

    def _scopes(self, client: Client) -> tuple[str, ...]:
        return tuple(name for name in client.scope - CLIENT_SCOPE if name in self.scopes)

    def _open(self, state: str, request: AppRequest) -> TestRun:
        """Return the test run of this session and app. Refused (not found) for any other."""
        trial = TestRun.open(state, self.keyring.sealer, request.now)
        if (
            trial is None
            or trial.session_id != request.session.id
            or trial.client_id != request.client.id
        ):
            raise not_found("trial")
        return trial

    async def _send(
        self, request: AppRequest, trial: TestRun
    ) -> tuple[tuple[Parameter, ...], Response]:
        """Return the token request as it is shown, and its response."""
        client, form = request.client, request.form
        secret = (form.get("client_secret") or "").strip()
        pairs = list(trial.exchange(form.get("code") or ""))
        headers: list[tuple[bytes, bytes]] = [_FORM]
        shown = [Parameter(name, masked(name, value)) for name, value in pairs]
        if client.is_public:
            pairs.append(("client_id", client.id))
            shown.append(Parameter("client_id", client.id))
        elif client.openid.token_endpoint_auth_method == _BASIC:
            both = f"{quote(client.id, safe='')}:{quote(secret, safe='')}"
            headers.append((b"authorization", b"Basic " + b64encode(both.encode())))
            shown.append(Parameter("Authorization", f"Basic {client.id}:…"))
        else:
            pairs += [("client_id", client.id), ("client_secret", secret)]
            shown += [Parameter("client_id", client.id), Parameter("client_secret", "…")]
        body = urlencode(pairs, errors="surrogatepass").encode()
        sent = sent_by(request, "POST", "/oauth/token", tuple(headers), body)
        return tuple(shown), await self.token(sent)

    async def _begin(self, request: AppRequest, *, nothing_chosen: bool = False) -> Show:
        client, head = request.client, request.head
        context = TryPage(
            head,
            head.at("try"),
            self._callback,
            client.redirect_uris,
            self._scopes(client),
            await self.store.read(lambda tx: apis_of(tx, client)),
            possible=can_be_tried(client),
            nothing_chosen=nothing_chosen,
        )
        return Show(context, _BAD_REQUEST if nothing_chosen else 200)

    def _request(
        self, request: AppRequest, trial: TestRun, state: str, landed: str | None = None
    ) -> Show:
        pairs, head = trial.request(state), request.head
        context = TryRequestPage(
            head,
            head.at("try/answer"),
            state,
            append_query(f"{self.issuer}{AUTHORIZE}", pairs),
            tuple(Parameter(name, masked(name, value)) for name, value in pairs),
            pasted=trial.redirect_uri != self._callback,
            redirect_uri=trial.redirect_uri,
            landed=landed or "",
            fault="" if landed is None else _NOT_AN_ANSWER,
        )
        return Show(context, 200 if landed is None else _BAD_REQUEST)

    def _answer(self, request: AppRequest, state: str, parameters: dict[str, str]) -> Show:
        trial, head, client = self._open(state, request), request.head, request.client
        code = parameters.get("code", "")
        shown = [Parameter(name, masked(name, value)) for name, value in trial.exchange(code)]
        return Show(
            TryAnswerPage(
                head,
                head.at("try/exchange"),
                state,
                code,
                tuple(Parameter(n, masked(n, parameters[n])) for n in _ANSWERS if n in parameters),
                request=(*shown, Parameter("client_id", client.id)),
                needs_secret=not client.is_public,
                explained=explained_at(head, parameters.get("error_uri")),
            )
        )


async def _app_of_answer(visit: PageVisit) -> AppRequest:
    """Require that the user is in the team of the app whose test run the state names."""
    request = await signed_in(visit)
    state = read_parameters(visit.request.query, opaque=_ANSWERS).get("state") or ""
    trial = TestRun.open(state, visit.browsers.keyring.sealer, visit.request.at)
    if trial is None:
        raise not_found("trial")
    return await member_of(visit, request, trial.client_id)


class TryUserInfoPage(Struct, frozen=True):
    """The context of userinfo.html."""

    template: ClassVar[str] = "portal/pages/userinfo.html"
    title: ClassVar[str] = translatable("Userinfo")

    app: AppHead
    status: int
    body: str
    url: str


class TryApiPage(Struct, frozen=True):
    """The context of api.html: the access token itself, and what it can do.

    `reference` is the URL of the page that sends requests with it; `minutes` is how long it works.
    """

    template: ClassVar[str] = "portal/pages/api.html"
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
        title, path, under = translatable("Try it"), f"{APP}/try", f"{APP}/quickstart"
        userinfo = Page(
            f"{path}/userinfo", member_of_app, act=Act(self.ask_userinfo), title=title, under=under
        )
        api = Page(f"{path}/api", member_of_app, act=Act(self.show_token), title=title, under=under)
        return (userinfo, api) if self.reference else (userinfo,)

    async def ask_userinfo(self, request: AppRequest) -> Outcome:
        """Show the response of the userinfo endpoint to the token."""
        bearer = (b"authorization", f"Bearer {self._token(request).token}".encode())
        sent = sent_by(request, "GET", "/oauth/userinfo", (bearer,))
        answer = await self.userinfo(sent)
        members = read_object(answer.body)
        body = answer.body.decode() if members is None else json.dumps(members, indent=2)
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
