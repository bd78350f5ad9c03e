"""/developer/apps/{id}/try: the authorization code flow, run step by step by a developer.

The token request goes through the token endpoint itself, with what the developer types: there is
no second way to tokens, and nothing here that an app of theirs could not do.
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from valetkey.authorization.deeds.developer.failures import plain_reference
from valetkey.authorization.deeds.developer.trial import (
    CATCHER,
    Trial,
    begin,
    can_be_tried,
    claims_in,
    open_token,
    seal_token,
    shortened,
)
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.model.register.client import CLIENT_SCOPE, Client
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.trial.pages import (
    Token,
    Told,
    TryAnswerPage,
    TryPage,
    TryRequestPage,
    TryTokensPage,
    TryUserInfoPage,
)
from valetkey.authorization.site.site import AUTHORIZE, Site
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import append_query
from valetkey.web.exchange import Endpoint, Headers, Request, Response
from valetkey.web.form import Form, read_query

_FORM = (b"content-type", b"application/x-www-form-urlencoded")
_BASIC = "client_secret_basic"
_TOKENS = ("access_token", "refresh_token", "id_token")
_SECRET = frozenset({"code", "state", "code_verifier", "client_secret"})
_LONGEST = 8_000
_ANSWERS = ("code", "state", "iss", "error", "error_description", "error_uri")
_FAULTY = 400

_NOT_AN_ANSWER = "This is no answer to this request: its state is missing, or another."


@dataclass(frozen=True, slots=True)
class TryEndpoint:
    """The steps. `token` and `userinfo` are the endpoints of those names."""

    site: Site
    token: Endpoint
    userinfo: Endpoint

    async def get(self, request: Request) -> Response:
        """What shall be tried."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        return self._begin(request, seen, head_of(app), app.client)

    async def post(self, request: Request) -> Response:
        """The request, ready to be sent."""
        found = await posted(self.site, request, multiple=("scope",))
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        client, head = app.client, head_of(app)
        chosen = [name for name in self._scopes(client) if name in form.all("scope")]
        redirect_uri = form.get("redirect_uri") or ""
        if redirect_uri != self._catcher and redirect_uri not in client.redirect_uris:
            raise nothing_there("redirect URI")
        if not chosen or not can_be_tried(client):
            return self._begin(request, seen, head, client, nothing_chosen=True)
        session = seen.signed_in.session.id
        trial = begin(client, session, redirect_uri, " ".join(chosen), self.site.random, request.at)
        state = trial.seal(self.site.keyring.sealer, self.site.random)
        return self._show_request(request, seen, head, trial, state)

    async def landed(self, request: Request) -> Response:
        """The answer, as the address says it that was pasted."""
        found = await posted(self.site, request, opaque=("landed",))
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        state = form.get("trial") or ""
        trial = self._open(state, seen, app.client, request)
        landed = (form.get("landed") or "")[:_LONGEST]
        said = _said(landed)
        if said.get("state") != state:
            return self._show_request(request, seen, head_of(app), trial, state, landed)
        return self._show_answer(request, seen, head_of(app), app.client, state, said)

    async def catch(self, request: Request) -> Response:
        """The answer, as it arrives at the catcher. Nobody else's trial can be seen."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        query = read_query(request.query, opaque=_ANSWERS)
        state = query.get("state") or ""
        trial = Trial.open(state, self.site.keyring.sealer, request.at)
        if trial is None:
            raise nothing_there("trial")
        app = await own_app(self.site, request, seen, quote(trial.client_id, safe=""))
        self._open(state, seen, app.client, request)
        said = {name: value for name in _ANSWERS if (value := query.get(name))}
        return self._show_answer(request, seen, head_of(app), app.client, state, said)

    async def exchange(self, request: Request) -> Response:
        """The tokens, or why there are none."""
        found = await posted(self.site, request, opaque=("code", "client_secret"))
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        trial = self._open(form.get("trial") or "", seen, app.client, request)
        sent, answer = await self._send(request, app.client, trial, form)
        said = read_object(answer.body) or {}
        access = said.get("access_token")
        sealed = ""
        if isinstance(access, str) and "openid" in str(said.get("scope", "")).split():
            sealed = seal_token(
                access, seen.signed_in.session.id, self.site.keyring.sealer, self.site.random
            )
        head = head_of(app)
        page = TryTokensPage(
            head,
            head.at("try/userinfo"),
            seen.csrf,
            answer.status,
            request=sent,
            parameters=tuple(
                Told(name, value if isinstance(value, str) else json.dumps(value))
                for name, value in said.items()
                if name not in _TOKENS
            ),
            tokens=tuple(_token(name, said[name]) for name in _TOKENS if name in said),
            token=sealed,
            explained=_explained(head, said.get("error_uri")),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask_who(self, request: Request) -> Response:
        """What userinfo says to the bearer of the token."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        app = await own_app(self.site, request, seen)
        session, sealer = seen.signed_in.session.id, self.site.keyring.sealer
        token = open_token(form.get("token") or "", session, sealer)
        if token is None:
            raise nothing_there("trial")
        asked = Request(
            "GET",
            "/oauth/userinfo",
            headers=Headers(((b"authorization", f"Bearer {token}".encode()),)),
            address=request.address,
            secure=request.secure,
            at=request.at,
        )
        answer = await self.userinfo(asked)
        told = read_object(answer.body)
        body = answer.body.decode() if told is None else json.dumps(told, indent=2)
        url = f"{self.site.issuer}/oauth/userinfo"
        page = TryUserInfoPage(head_of(app), answer.status, body, url)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    @property
    def _catcher(self) -> str:
        return f"{self.site.issuer}{CATCHER}"

    def _scopes(self, client: Client) -> tuple[str, ...]:
        return tuple(name for name in client.scope - CLIENT_SCOPE if name in self.site.scopes)

    def _open(self, state: str, seen: Visit, client: Client, request: Request) -> Trial:
        """The trial, if this session began it for this client; refused with `not_found`."""
        trial = Trial.open(state, self.site.keyring.sealer, request.at)
        if (
            trial is None
            or trial.session_id != seen.signed_in.session.id
            or trial.client_id != client.id
        ):
            raise nothing_there("trial")
        return trial

    async def _send(
        self, request: Request, client: Client, trial: Trial, form: Form
    ) -> tuple[tuple[Told, ...], Response]:
        """The token request as it is shown, and its answer."""
        secret = (form.get("client_secret") or "").strip()
        pairs = list(trial.exchange(form.get("code") or ""))
        headers: list[tuple[bytes, bytes]] = [_FORM]
        shown = [Told(name, _masked(name, value)) for name, value in pairs]
        if client.is_public:
            pairs.append(("client_id", client.id))
            shown.append(Told("client_id", client.id))
        elif client.openid.token_endpoint_auth_method == _BASIC:
            both = f"{quote(client.id, safe='')}:{quote(secret, safe='')}"
            headers.append((b"authorization", b"Basic " + b64encode(both.encode())))
            shown.append(Told("Authorization", f"Basic {client.id}:…"))
        else:
            pairs += [("client_id", client.id), ("client_secret", secret)]
            shown += [Told("client_id", client.id), Told("client_secret", "…")]
        body = urlencode(pairs, errors="surrogatepass").encode()
        asked = Request(
            "POST",
            "/oauth/token",
            headers=Headers(headers),
            body=body,
            address=request.address,
            secure=request.secure,
            at=request.at,
        )
        return tuple(shown), await self.token(asked)

    def _begin(
        self,
        request: Request,
        seen: Visit,
        head: AppHead,
        client: Client,
        *,
        nothing_chosen: bool = False,
    ) -> Response:
        page = TryPage(
            head,
            head.at("try"),
            seen.csrf,
            self._catcher,
            client.redirect_uris,
            self._scopes(client),
            possible=can_be_tried(client),
            nothing_chosen=nothing_chosen,
        )
        status = _FAULTY if nothing_chosen else 200
        user = seen.signed_in.user
        return self.site.page(request, page, status, user=user, headers=seen.headers)

    def _show_request(
        self,
        request: Request,
        seen: Visit,
        head: AppHead,
        trial: Trial,
        state: str,
        landed: str | None = None,
    ) -> Response:
        pairs = trial.request(state)
        page = TryRequestPage(
            head,
            head.at("try/answer"),
            seen.csrf,
            state,
            append_query(f"{self.site.issuer}{AUTHORIZE}", pairs),
            tuple(Told(name, _masked(name, value)) for name, value in pairs),
            pasted=trial.redirect_uri != self._catcher,
            redirect_uri=trial.redirect_uri,
            landed=landed or "",
            fault="" if landed is None else _NOT_AN_ANSWER,
        )
        status = 200 if landed is None else _FAULTY
        user = seen.signed_in.user
        return self.site.page(request, page, status, user=user, headers=seen.headers)

    def _show_answer(
        self,
        request: Request,
        seen: Visit,
        head: AppHead,
        client: Client,
        state: str,
        said: dict[str, str],
    ) -> Response:
        trial = self._open(state, seen, client, request)
        code = said.get("code", "")
        asked = [Told(name, _masked(name, value)) for name, value in trial.exchange(code)]
        page = TryAnswerPage(
            head,
            head.at("try/exchange"),
            seen.csrf,
            state,
            code,
            tuple(Told(name, _masked(name, said[name])) for name in _ANSWERS if name in said),
            request=(*asked, Told("client_id", client.id)),
            needs_secret=not client.is_public,
            explained=_explained(head, said.get("error_uri")),
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def _said(landed: str) -> dict[str, str]:
    """The parameters in the query of an address that somebody pasted; none of them is trusted."""
    try:
        query = urlsplit(landed.strip()).query
        return dict(parse_qsl(query, strict_parsing=True, errors="strict", max_num_fields=50))
    except ValueError:
        return {}


def _masked(name: str, value: str) -> str:
    return shortened(value) if name in _SECRET else value


def _token(name: str, value: object) -> Token:
    text = str(value)
    return Token(name, shortened(text), claims_in(text) if name != "refresh_token" else "")


def _explained(head: AppHead, error_uri: object) -> str:
    told = _said(error_uri) if isinstance(error_uri, str) else {}
    reference = plain_reference(told.get("reference", ""))
    return f"{head.at('failures')}/{reference}" if reference else ""
