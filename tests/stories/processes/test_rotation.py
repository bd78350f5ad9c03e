"""Keys are rotated again and again under load, and no client notices (security 15).

`VALETKEY_ROTATIONS=25` makes so many of each kind.
"""

import json
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from tests.cli.running import valetkey
from tests.stories.processes.serving import CALLBACK, PASSWORD, SECRET, Serving, configure, serving
from tests.support.wait import CEILING
from valetkey.kernel.secret import from_base64url
from valetkey.testing.browser import UserAgent

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

_PATIENCE = CEILING
_ALGORITHMS = ("RS256", "EdDSA")
_ROTATIONS = int(os.environ.get("VALETKEY_ROTATIONS", "2"))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///authorization.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@dataclass
class Keys:
    """The server's keys as one client knows them; `eager` looks again for a kid it never met."""

    url: str
    eager: bool
    known: KeySet | None = None
    until: float = 0.0
    fetched: int = 0

    def verify(self, token: str, algorithm: str) -> str:
        """The kid that signed; raises JoseError or ValueError for what does not verify."""
        kid: str = json.loads(from_base64url(token.partition(".")[0]) or b"")["kid"]
        keys = self.known
        stale = keys is None or time.monotonic() > self.until
        if keys is None or stale or (self.eager and kid not in {key.kid for key in keys}):
            keys = self.fetch()
        jws.deserialize_compact(token, keys, [algorithm])
        return kid

    def fetch(self) -> KeySet:
        # A connection of its own, so that any of the processes may answer.
        answer = requests.get(self.url, timeout=_PATIENCE)
        kept = re.search(r"max-age=(\d+)", answer.headers["cache-control"])
        assert kept is not None
        # A key is published for five minutes at least before it signs.
        assert int(kept[1]) <= 300
        self.until = time.monotonic() + int(kept[1])
        self.known = KeySet.import_key_set(answer.json())
        self.fetched += 1
        return self.known


@dataclass
class Load:
    """Apps that fetch and verify until they are told to stop."""

    servers: Serving
    ended: threading.Event = field(default_factory=threading.Event)
    patient: bool = True
    failures: list[str] = field(default_factory=list[str])
    kids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    verified: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    faults: list[BaseException] = field(default_factory=list[BaseException])
    """What ended an app."""

    def app(self, algorithm: str, fetch: Callable[[], str]) -> None:
        """Fetch and verify, with a cache that looks for unknown keys and one that does not."""
        url = f"{self.servers.auth}/oauth/jwks"
        caches = [Keys(url, eager=True), Keys(url, eager=False)]
        while not self.ended.is_set():
            patient = self.patient
            token = fetch()
            for keys in caches if patient else caches[:1]:
                try:
                    self.kids[algorithm].add(keys.verify(token, algorithm))
                except (JoseError, ValueError) as error:
                    self.failures.append(f"{algorithm} {error!r} eager={keys.eager}")
            self.verified[algorithm] += 1
        assert caches[1].fetched == 1

    def wait_for_more(self) -> None:
        """Return once every app has verified twice more."""
        targets = {name: count + 2 for name, count in self.verified.items()}
        end = time.monotonic() + _PATIENCE
        while any(self.verified[name] < count for name, count in targets.items()):
            assert not self.faults, self.faults
            assert time.monotonic() < end, "an app stands still"
            time.sleep(0.02)


@dataclass
class App:
    """An app that registered itself for ID tokens by one algorithm, and asks for more of them."""

    servers: Serving
    id: str
    secret: str
    refresh_token: str = ""

    @staticmethod
    def registered(servers: Serving, algorithm: str) -> "App":
        metadata = {
            "client_name": algorithm,
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "client_secret_post",
            "id_token_signed_response_alg": algorithm,
            "scope": "openid offline_access",
        }
        answer = requests.post(f"{servers.auth}/oauth/register", json=metadata, timeout=_PATIENCE)
        assert answer.status_code == 201, answer.text
        return App(servers, answer.json()["client_id"], answer.json()["client_secret"])

    def sign_in(self) -> None:
        """Ada signs in and allows."""
        person = UserAgent(self.servers.auth)
        page = person.open(
            f"{self.servers.auth}/oauth/authorize?response_type=code&client_id={self.id}"
            f"&redirect_uri={CALLBACK}&scope=openid%20offline_access&prompt=consent"
        )
        page = person.allow(person.sign_in(page, "ada", PASSWORD))
        code = page.redirect_parameters["code"]
        self._ask(grant_type="authorization_code", code=code, redirect_uri=CALLBACK)

    def id_token(self) -> str:
        """Another one. What came with it opens userinfo at once, whichever process answers."""
        tokens = self._ask(grant_type="refresh_token", refresh_token=self.refresh_token)
        bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
        userinfo = requests.get(
            f"{self.servers.auth}/oauth/userinfo", headers=bearer, timeout=_PATIENCE
        )
        assert userinfo.status_code == 200, userinfo.text
        return tokens["id_token"]

    def _ask(self, **parameters: str) -> dict[str, str]:
        form = {"client_id": self.id, "client_secret": self.secret, **parameters}
        answer = requests.post(f"{self.servers.auth}/oauth/token", form, timeout=_PATIENCE)
        assert answer.status_code == 200, answer.text
        tokens: dict[str, str] = answer.json()
        self.refresh_token = tokens.get("refresh_token", self.refresh_token)
        return tokens


def _access_token(servers: Serving) -> str:
    """Another one, which the API takes at once."""
    form = {"grant_type": "client_credentials", "client_id": "printer", "client_secret": SECRET}
    answer = requests.post(f"{servers.auth}/token", form, timeout=_PATIENCE)
    assert answer.status_code == 200, answer.text
    token: str = answer.json()["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    welcome = requests.get(f"{servers.api}/v2/client", headers=bearer, timeout=_PATIENCE)
    assert welcome.status_code == 200, welcome.text
    return token


@contextmanager
def _under_load(servers: Serving) -> Generator[Load]:
    apps = {algorithm: App.registered(servers, algorithm) for algorithm in _ALGORITHMS}
    for app in apps.values():
        app.sign_in()
    load = Load(servers)
    fetches: dict[str, Callable[[], str]] = {
        algorithm: app.id_token for algorithm, app in apps.items()
    }
    fetches["ES256"] = lambda: _access_token(servers)

    def work(algorithm: str, fetch: Callable[[], str]) -> None:
        load.verified[algorithm] = 0
        try:
            load.app(algorithm, fetch)
        except BaseException as fault:  # noqa: BLE001 - told where the test can see it
            load.faults.append(fault)

    threads = [threading.Thread(target=work, args=arguments) for arguments in fetches.items()]
    for thread in threads:
        thread.start()
    try:
        while len(load.verified) < len(fetches):
            time.sleep(0.01)
        load.wait_for_more()
        yield load
    finally:
        load.ended.set()
        for thread in threads:
            thread.join(_PATIENCE)
    assert not load.faults, load.faults


def test_key_rotation_under_load_causes_no_client_errors(database: str, tmp_path: Path) -> None:
    config = configure(tmp_path, database, workers=2, every_algorithm=True)
    config.write_text(config.read_text() + '[registration]\nmode = "open"\n')
    rotate = ("key", "rotate", "--yes", "--config", str(config))
    with serving(tmp_path, database, workers=2) as servers, _under_load(servers) as load:
        # As it is done where nothing leaked: the next key waits until everybody can know it.
        for _ in range(_ROTATIONS):
            assert valetkey(*rotate, here=tmp_path).code == 0
            load.wait_for_more()
        assert load.failures == []
        assert {name: len(kids) for name, kids in load.kids.items()} == dict.fromkeys(
            (*_ALGORITHMS, "ES256"), 1
        )
        # As it is done where a key leaked: keys sign that nobody can have met before.
        load.patient = False
        load.wait_for_more()
        for _ in range(_ROTATIONS):
            assert valetkey(*rotate, "--now", here=tmp_path).code == 0
            load.wait_for_more()
            assert load.failures == []
        assert all(len(kids) > _ROTATIONS - 1 for kids in load.kids.values()), load.kids
