"""One round of a race: everything that can be issued, against one thing that ends it."""

import copy
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import requests

from tests.cli.running import valetkey
from tests.stories.processes.serving import (
    CALLBACK,
    CHALLENGE,
    PASSWORD,
    SECRET,
    VERIFIER,
    Serving,
)
from tests.support.wait import CEILING
from valetkey.testing.browser import Page, UserAgent

_PATIENCE = CEILING
_HEARD_WITHIN = CEILING
"""Seconds in which the resource server must have heard of an ending; it promises five."""

CODES = 8
FAMILIES = 2
OWN = 2
_SCOPE = "account:read authorizations:read authorizations:write"
_MORE = " notes:read"


def administrator(here: Path) -> str:
    """An owner of the server, `boss`; the token of the admin API that is theirs."""
    (here / "boss.toml").write_text(_user("boss", 1))
    _run(here, "apply", "boss.toml", "--yes")
    _run(here, "user", "role", "boss", "owner")
    permissions = [word for one in ("read", "people", "clients", "reset") for word in _may(one)]
    return _run(here, "admin-token", "create", "--for", "boss", "--name", "races", *permissions)


def register(here: Path, uids: Mapping[str, int], shared: str) -> None:
    """A user and an app of theirs for each name; `boss` owns the app of `shared` too."""
    lines = [text for name, uid in uids.items() for text in (_user(name, uid), _app(name))]
    (here / "rounds.toml").write_text("\n".join(lines))
    _run(here, "apply", "rounds.toml", "--yes")
    for name in uids:
        _run(here, "client", "owner", f"app-{name}", name)
    _run(here, "client", "owner", f"app-{shared}", "boss")


def _may(permission: str) -> tuple[str, str]:
    return "--permission", permission


def _run(here: Path, *arguments: str) -> str:
    done = valetkey(*arguments, here=here)
    assert done.code == 0, done.out + done.err
    return done.out.strip()


def _user(name: str, uid: int) -> str:
    return (
        f'[[users]]\nuid = {uid}\nusername = "{name}"\nemail = "{name}@example.com"\n'
        f'name = "{name}"\npassword = "{PASSWORD}"\n'
    )


def _app(name: str) -> str:
    return (
        f'[[clients]]\nclient_id = "app-{name}"\nclient_secret = "{SECRET}"\nname = "App {name}"\n'
        f'redirect_uris = ["{CALLBACK}"]\nscopes = ["account:read", "authorizations:read",'
        ' "authorizations:write", "notes:read"]\nends_with_session = true\n'
        'grant_types = ["authorization_code", "refresh_token", "client_credentials"]\n'
    )


@dataclass
class Outcome:
    """What the requests of one round obtained; `family` tells the grants of refreshes apart."""

    tokens: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    browsers: list[UserAgent] = field(default_factory=list)
    secrets: int = 0
    strange: list[str] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Mapping[str, str]]:
        """The token responses of these kinds."""
        return [response for kind, response in self.tokens if kind in kinds]


class Round:
    """One user and one app, signed in, allowed and with codes and grants to race with."""

    def __init__(
        self, servers: Serving, here: Path, admin: str, name: str, uid: int, *, of_api: bool = False
    ) -> None:
        """Prepare everything that the race needs; with `of_api` for an API of this round."""
        self.servers, self.name, self.uid, self.client = servers, name, uid, f"app-{name}"
        self._admin = {"authorization": f"Bearer {admin}"}
        credential = (here / "valetkey" / "resource-server.credential").read_text().strip()
        self._credential, self._scope, self._more = ("resource-server", credential), _SCOPE, _MORE
        self._resource = ""
        self.api = self._declare() if of_api else ""
        self.browser = UserAgent(servers.auth)
        page = self.browser.open(self._authorize())
        page = self.browser.allow(self.browser.sign_in(page, name, PASSWORD))
        codes = [
            page.redirect_parameters["code"],
            *(self._code() for _ in range(CODES + FAMILIES - 1)),
        ]
        self.families = [self.redeem(codes.pop()).json() for _ in range(FAMILIES)]
        assert self.is_active(self.families[0]["access_token"])
        self.codes = codes
        self.asking = self.browser.open(self._authorize(more=self._more))
        self.entering = UserAgent(servers.auth)
        self.entrance = self.entering.open(f"{servers.auth}/oauth/sign-in")
        self.portal = self.browser.open(f"{servers.auth}/developer/apps/{self.client}/secrets")
        for form in self.portal.forms:
            # Of radio buttons with one name the last is pressed.
            form.fields = list(dict(form.fields).items())

    def race(self, ending: Callable[["Round"], None]) -> Outcome:
        """Do all of it at once, and the ending among it."""
        outcome = Outcome()
        works: list[Callable[[], None]] = [
            *(lambda c=code: self._tokens(outcome, "code", self.redeem(c)) for code in self.codes),
            *(
                lambda n=number, f=family: self._tokens(outcome, f"family {n}", self.refresh(f))
                for number, family in enumerate(self.families)
            ),
            *(lambda: self._tokens(outcome, "own", self.own()) for _ in range(OWN)),
            lambda: self._consent(outcome),
            lambda: self._sign_in(outcome),
            lambda: self._secret(outcome),
        ]
        random.shuffle(works)
        works.insert(len(works) // 2, lambda: ending(self))
        start = threading.Barrier(len(works))

        def begin(work: Callable[[], None]) -> None:
            start.wait(_PATIENCE)
            time.sleep(random.random() / 40)
            work()

        with ThreadPoolExecutor(len(works)) as threads:
            list(threads.map(begin, works))
        return outcome

    def _tokens(self, outcome: Outcome, kind: str, answer: requests.Response) -> None:
        if answer.status_code == requests.codes.ok:
            outcome.tokens.append((kind, answer.json()))
        elif answer.status_code >= requests.codes.server_error:
            outcome.strange.append(f"{kind}: {answer.status_code} {answer.text}")

    def _consent(self, outcome: Outcome) -> None:
        page = self._browser().allow(self.asking)
        self._look(outcome, "consent", page)
        if "code" in page.redirect_parameters:
            outcome.codes.append(page.redirect_parameters["code"])

    def _sign_in(self, outcome: Outcome) -> None:
        self._look(outcome, "sign in", self.entering.sign_in(self.entrance, self.name, PASSWORD))
        outcome.browsers.append(self.entering)

    def _secret(self, outcome: Outcome) -> None:
        page = self._browser().submit(self.portal, "new-secret")
        self._look(outcome, "secret", page)
        outcome.secrets += page.status == requests.codes.ok and "client-secret" in page.body

    def _look(self, outcome: Outcome, kind: str, page: Page) -> None:
        if page.status >= requests.codes.server_error:
            outcome.strange.append(f"{kind}: {page.status} {page.text}")

    def _browser(self) -> UserAgent:
        # Each request of its own: the cookies of one must not get in the way of another.
        return copy.deepcopy(self.browser)

    def _authorize(self, more: str = "") -> str:
        return (
            f"{self.servers.auth}/oauth/authorize?response_type=code&client_id={self.client}"
            f"&redirect_uri={CALLBACK}&code_challenge={CHALLENGE}&code_challenge_method=S256"
            f"{self._resource}&scope={self._scope}{more}"
        ).replace(" ", "%20")

    def _code(self) -> str:
        return self.browser.open(self._authorize()).redirect_parameters["code"]

    def ask(self, path: str = "token", **parameters: str) -> requests.Response:
        """A request of the app's."""
        form = {"client_id": self.client, "client_secret": SECRET, **parameters}
        return requests.post(f"{self.servers.auth}/oauth/{path}", form, timeout=_PATIENCE)

    def redeem(self, code: str) -> requests.Response:
        """Exchange a code."""
        return self.ask(
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
        )

    def refresh(self, tokens: Mapping[str, str]) -> requests.Response:
        """Use a refresh token."""
        return self.ask(grant_type="refresh_token", refresh_token=tokens["refresh_token"])

    def own(self) -> requests.Response:
        """The app's own token."""
        return self.ask(grant_type="client_credentials")

    def admin(self, method: str, path: str, **body: object) -> requests.Response:
        """A call of the admin API."""
        url = f"{self.servers.auth}/admin/api/v1{path}"
        return requests.request(
            method, url, headers=self._admin, json=body or None, timeout=_PATIENCE
        )

    def _declare(self) -> str:
        """Declare an API for which codes and grants are asked from now on; its id."""
        identifier = f"https://{self.name}.example"
        scopes = {f"{self.name}:{verb}": f"{verb} your calendar" for verb in ("read", "write")}
        body = {"identifier": identifier, "name": self.name, "scopes": scopes}
        api = self.admin("POST", "/apis", **body).json()["api_id"]
        secret = self.admin("POST", f"/apis/{api}/secrets", others_live=None).json()[
            "client_secret"
        ]
        self._credential = (api, secret)
        self._scope, self._more = f"{self.name}:read", f" {self.name}:write"
        self._resource = f"&resource={identifier}"
        return str(api)

    def press(self, address: str, button: str) -> None:
        """Open a page of ours in the main browser and press a button."""
        browser = self._browser()
        page = browser.submit(browser.open(f"{self.servers.auth}{address}"), button)
        assert page.status < requests.codes.bad_request, page.text

    def is_active(self, token: str) -> bool:
        """What introspection says to the resource server."""
        answer = requests.post(
            f"{self.servers.auth}/oauth/introspect",
            {"token": token},
            auth=self._credential,
            timeout=_PATIENCE,
        )
        active: bool = answer.json()["active"]
        return active

    def opens(self, token: str, record: str) -> bool:
        """Whether our own API takes it; a token for another is none of its business."""
        if self.api:
            return False
        answer = requests.get(
            f"{self.servers.api}/v2/{record}",
            headers={"authorization": f"Bearer {token}"},
            timeout=_PATIENCE,
        )
        assert answer.status_code in {200, 401}, answer.text
        return bool(answer.status_code == requests.codes.ok)

    def grant_of(self, tokens: Mapping[str, str]) -> str:
        """The id of its grant: who has a refresh token can read it there."""
        return tokens["refresh_token"].rpartition(".")[2]

    def listed(self) -> str:
        """How the app is among the user's connected apps: with access, without, or "" for not."""
        for app in self.admin("GET", f"/users/{self.uid}").json()["apps"]:
            if app["client_id"] == self.client:
                return "without access" if app["last_used_at"] is None else "with access"
        return ""

    def is_signed_in(self, browser: UserAgent) -> bool:
        """Whether somebody is signed in there."""
        page = browser.open(f"{self.servers.auth}/account/sessions")
        return not any(button.id == "sign-in" for button in page.buttons)

    def survivors(
        self, responses: Sequence[Mapping[str, str]], record: str = "account"
    ) -> list[str]:
        """What still works of these, everywhere, after resource servers had the time to hear."""
        alive = [
            f"active {self.name}"
            for response in responses
            if self.is_active(response["access_token"])
        ]
        end = time.monotonic() + _HEARD_WITHIN
        opened = list(responses)
        while opened and time.monotonic() < end:
            opened = [
                response for response in opened if self.opens(response["access_token"], record)
            ]
            if opened:
                time.sleep(0.2)
        alive += [f"the API takes {self.name}" for _ in opened]
        for response in responses:
            if (
                "refresh_token" in response
                and self.refresh(response).status_code == requests.codes.ok
            ):
                alive.append(f"refreshed {self.name}")
        return alive
