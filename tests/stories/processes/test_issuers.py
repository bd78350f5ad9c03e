"""Several issuers in one process: each is served, and nothing of one is valid at another.

Both issuers have the same users, clients and secrets: only keys and databases tell them apart.
"""

import asyncio
import json
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from threading import Event
from types import MappingProxyType

import pytest
import requests

from tests.cli.running import PROGRAM, clean_environment, valetkey
from tests.stories.processes.serving import PASSWORD, REGISTER, SECRET, Serving, free_addresses
from tests.support.wait import CEILING, wait_until
from valetkey.cli.serving.issuers import Turns
from valetkey.fetch.certificate import self_signed
from valetkey.kernel.runtime import SYSTEM
from valetkey.testing.browser import UserAgent

_HOSTS = {"a": "127.0.0.2", "b": "127.0.0.3", "c": "127.0.0.4"}
_PRINTER = ("printer", SECRET)
_LOGIN = {"grant_type": "password", "username": "ada", "scope": "notes:read"}


class Several(dict[str, Serving]):
    """Issuers by name, the folder of their configurations, and their log."""

    def __init__(self, folder: Path, log: Path, process: subprocess.Popen[str]) -> None:
        super().__init__()
        self.place = folder
        self.log = log
        self.process = process
        self.metrics = ""

    def events(self, name: str) -> Sequence[Mapping[str, object]]:
        """What the log has of an event so far."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{")
        return [line for line in lines if line["event"] == name]

    def reload(self) -> int:
        """Run `valetkey reload`; its exit code."""
        return valetkey("reload", "--configs", str(self.place), here=self.place).code


def _tls_configuration(name: str, host: str, ports: tuple[str, str]) -> str:
    auth, api = (f'url = "https://{host}:{port}"\nlisten = "127.0.0.1:{port}"\n' for port in ports)
    files = f'tls_certificate = "{name}.pem"\ntls_key = "{name}.pem"\n'
    return f"[authorization]\n{auth}{files}[resource]\n{api}{files}"


def _certify(folder: Path, name: str, host: str) -> Path:
    """Write a key and a certificate for `host` beside the configuration of an issuer."""
    file = folder / name / f"{name}.pem"
    file.parent.mkdir(exist_ok=True)
    renamed = file.with_suffix(".new")
    renamed.write_text(self_signed(host, SYSTEM.now(), days=30))
    return renamed.rename(file)


def _over_tls(port: str, certificate: Path, name: str, host: str, path: str) -> int:
    """Get `path` of `host` on a connection for `name`, verified by `certificate`; the status."""
    trusting = ssl.create_default_context(cafile=certificate)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with (
        socket.create_connection(("127.0.0.1", int(port)), CEILING) as raw,
        trusting.wrap_socket(raw, server_hostname=name) as connection,
    ):
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        answer = HTTPResponse(connection)
        answer.begin()
        return answer.status


def _configuration(name: str, ports: tuple[str, str], more: str = "", database: str = "") -> str:
    auth, api = (f"{_HOSTS[name]}:{port}" for port in ports)
    stored = f'database = "{database}"\n' if database else ""
    return (
        f'[authorization]\nurl = "http://{auth}"\nlisten = "{auth}"\n{stored}'
        f'[resource]\nurl = "http://{api}"\nlisten = "{api}"\n'
        f'[tokens]\nsigning_algorithms = ["ES256"]\n{more}'
    )


def _write(
    folder: Path, name: str, ports: tuple[str, str], more: str = "", database: str = ""
) -> Path:
    file = folder / name / "valetkey.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(_configuration(name, ports, more, database))
    return file


@contextmanager
def _several(
    here: Path,
    *names: str,
    environment: Mapping[str, str] | None = None,
    databases: Mapping[str, str] = MappingProxyType({}),
    hosts: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Several]:
    """Issuers of these names in one process for each server, with everyone of `REGISTER`.

    Those in `hosts` have TLS under these names.
    """
    folder, ports = here / "issuers", _ports()
    folder.mkdir(exist_ok=True)
    (here / "register.toml").write_text(REGISTER)
    for name in names:
        file = _write(folder, name, ports, database=databases.get(name, ""))
        if host := hosts.get(name):
            file.write_text(_tls_configuration(name, host, ports))
        applied = valetkey("apply", "register.toml", "--config", str(file), "--yes", here=here)
        assert applied.code == 0, applied.err
    log = here / "log"
    with log.open("w") as err:
        process = subprocess.Popen(
            [str(PROGRAM), "serve", "--configs", str(folder)],
            cwd=here,
            env={**clean_environment(), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            start_new_session=True,
        )
    several = Several(folder, log, process)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith(f"ready issuers={len(names)}"), ready + log.read_text()
        several.metrics = ready.rpartition("metrics=")[2].strip()
        for name in names:
            several[name] = _serving(name, ports, process)
            if name not in hosts:
                _wait_for(several[name].api)
        yield several
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(CEILING)
        if process.stdout is not None:
            process.stdout.close()


def _serving(name: str, ports: tuple[str, str], process: subprocess.Popen[str]) -> Serving:
    auth, api = (f"http://{_HOSTS[name]}:{port}" for port in ports)
    return Serving(auth, api, process)


def _ports() -> tuple[str, str]:
    auth, api = (address.rpartition(":")[2] for address in free_addresses())
    return auth, api


def _wait_for(url: str, host: str = "", status: int = 200) -> None:
    wait_until(lambda: _status(f"{url}/health/ready", host) == status, every=0.1)


def _status(url: str, host: str = "") -> int:
    headers = {"host": host} if host else {}
    return requests.get(url, headers=headers, timeout=CEILING).status_code


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Generator[Several]:
    scraped = {"VALETKEY__METRICS__LISTEN": f"127.0.0.1:{_ports()[0]}"}
    with _several(tmp_path_factory.mktemp("several"), "a", "b", environment=scraped) as several:
        yield several


def _tokens(issuer: Serving) -> Mapping[str, str]:
    answer = issuer.redeem(issuer.code())
    assert answer.status_code == 200, answer.text
    tokens: Mapping[str, str] = answer.json()
    return tokens


def _introspected(issuer: Serving, token: str) -> bool:
    url = f"{issuer.auth}/oauth/introspect"
    answer = requests.post(url, data={"token": token}, auth=_PRINTER, timeout=CEILING)
    active: bool = answer.json()["active"]
    return active


def _notes(issuer: Serving, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return requests.get(f"{issuer.api}/v2/notes", headers=headers, timeout=CEILING).status_code


def test_each_issuer_has_its_own_metadata_and_keys(both: Several) -> None:
    keys: list[set[str]] = []
    for issuer in both.values():
        metadata = requests.get(
            f"{issuer.auth}/.well-known/openid-configuration", timeout=CEILING
        ).json()
        assert metadata["issuer"] == issuer.auth
        documents = requests.get(metadata["jwks_uri"], timeout=CEILING).json()["keys"]
        keys.append({document["kid"] for document in documents})
    assert all(keys)
    assert keys[0].isdisjoint(keys[1])


def test_access_token_is_valid_at_its_own_issuer_only(both: Several) -> None:
    a, b = both["a"], both["b"]
    token = _tokens(a)["access_token"]
    assert _introspected(a, token)
    assert not _introspected(b, token)
    assert (_notes(a, token), _notes(b, token)) == (200, 401)
    headers = {"authorization": f"Bearer {token}"}
    answer = requests.get(f"{b.auth}/oauth/userinfo", headers=headers, timeout=CEILING)
    assert answer.status_code == 401


def test_revocation_at_one_issuer_leaves_tokens_of_the_other(both: Several) -> None:
    a, b = both["a"], both["b"]
    token = _tokens(a)["access_token"]
    requests.post(f"{b.auth}/oauth/revoke", data={"token": token}, auth=_PRINTER, timeout=CEILING)
    assert _introspected(a, token)


def test_code_of_another_issuer_is_refused_and_stays_valid(both: Several) -> None:
    code = both["a"].code()
    refused = both["b"].redeem(code)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert both["a"].redeem(code).status_code == 200


def test_refresh_token_of_another_issuer_is_refused_and_stays_valid(both: Several) -> None:
    token = _tokens(both["a"])["refresh_token"]
    refused = both["b"].refresh(token, "printer")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert both["a"].refresh(token, "printer").status_code == 200


def _signed_in(issuer: Serving) -> UserAgent:
    agent = UserAgent(issuer.auth)
    page = agent.sign_in(agent.open(f"{issuer.auth}/oauth/sign-in"), "ada", PASSWORD)
    assert "Ada Lovelace" in agent.open(f"{issuer.auth}/").text, page.text
    return agent


def test_session_cookie_of_another_issuer_is_not_accepted(both: Several) -> None:
    ada = _signed_in(both["a"])
    thief = UserAgent(both["b"].auth)
    thief.cookies.update(ada.cookies)
    assert "Ada Lovelace" not in thief.open(f"{both['b'].auth}/").text
    assert "Ada Lovelace" in ada.open(f"{both['a'].auth}/").text


def test_form_of_another_issuer_is_refused(both: Several) -> None:
    a, b = UserAgent(both["a"].auth), UserAgent(both["b"].auth)
    form = a.open(f"{both['a'].auth}/oauth/sign-in").forms
    page = b.open(f"{both['b'].auth}/oauth/sign-in")
    # The cookie is that of b, the token in the form that of a.
    for mine, theirs in zip(page.forms, form, strict=True):
        mine.fields[:] = theirs.fields
    page = b.sign_in(page, "ada", PASSWORD)
    assert "Ada Lovelace" not in b.open(f"{both['b'].auth}/").text, page.text


def test_client_of_another_issuer_is_unknown(both: Several) -> None:
    config = str(both.place / "a" / "valetkey.toml")
    made = valetkey(
        "client", "create", "--name", "Only A", "--json", "--grant-type", "client_credentials",
        "--scope", "notes:read", "--config", config, here=both.place,
    )  # fmt: skip
    assert made.code == 0, made.err
    client = made.json
    form = {
        "grant_type": "client_credentials",
        "client_id": client["client_id"],
        "client_secret": client["client_secret"],
    }
    statuses = [
        requests.post(f"{issuer.auth}/oauth/token", data=form, timeout=CEILING).status_code
        for issuer in (both["a"], both["b"])
    ]
    assert statuses == [200, 401]


def test_failed_sign_ins_at_one_issuer_do_not_count_at_the_other(both: Several) -> None:
    form = {
        "grant_type": "password",
        "client_id": "printer",
        "client_secret": SECRET,
        "username": "ada",
        "scope": "notes:read",
    }
    url = f"{both['a'].auth}/oauth/token"
    for _ in range(60):
        answer = requests.post(url, data={**form, "password": "wrong"}, timeout=CEILING)
        if answer.status_code == 429 or answer.json().get("error") == "slow_down":
            break
    answers = [
        requests.post(
            f"{issuer.auth}/oauth/token", data={**form, "password": PASSWORD}, timeout=CEILING
        ).status_code
        for issuer in (both["a"], both["b"])
    ]
    assert answers == [429, 200]


def test_unknown_host_is_misdirected_and_probes_reach_the_process(both: Several) -> None:
    a = both["a"]
    assert _status(f"{a.auth}/.well-known/openid-configuration", "id.example") == 421
    assert _status(f"{a.auth}/health/live", "10.0.0.1") == 200
    assert _status(f"{a.api}/v2/notes", "api.example") == 421
    # Host is what selects the issuer, not the address of the connection.
    other = both["b"].auth.removeprefix("http://")
    answer = requests.get(
        f"{a.auth}/.well-known/openid-configuration", headers={"host": other}, timeout=CEILING
    )
    assert answer.json()["issuer"] == both["b"].auth


def test_log_names_the_issuer(both: Several) -> None:
    requests.get(f"{both['b'].auth}/health/live-not", timeout=CEILING)

    def logged() -> bool:
        return any(line.get("issuer") == "b" for line in both.events("request"))

    wait_until(logged)
    assert {line["issuer"] for line in both.events("issuer.ready")} == {"a", "b"}


def test_metrics_name_the_issuer(both: Several) -> None:
    def tokens() -> dict[str, float]:
        text = requests.get(both.metrics, timeout=CEILING).text
        counts = dict.fromkeys("ab", 0.0)
        for line in text.splitlines():
            if line.startswith("valetkey_tokens_issued_total{"):
                labels, _, number = line.rpartition(" ")
                counts[labels.partition('issuer="')[2][0]] += float(number)
        assert 'valetkey_worker_up{issuer="",server="authorization"' in text
        return counts

    before = tokens()
    _tokens(both["b"])
    assert tokens() == {"a": before["a"], "b": before["b"] + 1}


def test_broken_issuers_answer_503_and_leave_the_others_alone(tmp_path: Path) -> None:
    with _several(tmp_path, "a") as several:
        a, ports = several["a"], (several["a"].auth[-5:], several["a"].api[-5:])
        # Its database is no database.
        b = _write(several.place, "b", ports)
        (b.parent / "valetkey").mkdir()
        for name in ("authorization", "resource"):
            (b.parent / "valetkey" / f"{name}.db").write_text("not a database")
        # Its configuration has an error, but names its host.
        _write(several.place, "c", ports, "[tokens2]\n")
        assert several.reload() == 2
        started = len(several.events("issuer.ready"))
        for name in ("b", "c"):
            host = f"{_HOSTS[name]}:{ports[0]}"
            _wait_for(a.auth, host, 503)

            def failed(name: str = name) -> list[str]:
                events = several.events("issuer.failed")
                return [str(event["reason"]) for event in events if event["issuer"] == name]

            assert wait_until(failed)
        assert "tokens2" in str(several.events("issuer.failed"))
        assert _status(f"{a.auth}/health/ready") == 200
        assert _introspected(a, _tokens(a)["access_token"])
        # Once they are fixed they are served.
        for name in ("authorization", "resource"):
            (b.parent / "valetkey" / f"{name}.db").unlink()
        _write(several.place, "c", ports)
        assert several.reload() == 0
        for name in ("b", "c"):
            host = f"{_HOSTS[name]}:{ports[0]}"
            _wait_for(a.auth, host)
        assert "a" not in {line["issuer"] for line in several.events("issuer.ready")[started:]}


def test_issuers_on_postgresql_have_a_database_each(
    tmp_path: Path, postgres_url: str, another_postgres_url: str
) -> None:
    databases = {"a": postgres_url, "b": another_postgres_url}
    with _several(tmp_path, "a", "b", databases=databases) as several:
        token = _tokens(several["a"])["access_token"]
        assert _introspected(several["a"], token)
        assert not _introspected(several["b"], token)


def test_reload_replaces_only_the_changed_issuer(tmp_path: Path) -> None:
    with _several(tmp_path, "a", "b") as several:
        a, b = several["a"], several["b"]
        token, ports = _tokens(b)["access_token"], (a.auth[-5:], a.api[-5:])
        before = {name: _title(several[name]) for name in ("a", "b")}
        _write(several.place, "a", ports, '[brand]\nname = "Acme Accounts"\n')
        assert several.reload() == 0
        wait_until(lambda: "Acme Accounts" in _title(a), every=0.1)
        assert _title(b) == before["b"] != _title(a)
        assert _introspected(b, token)
        ready = [line["issuer"] for line in several.events("issuer.ready")]
        assert ready.count("b") == 2, "one start for each server"
        # One whose file is gone is not served any more.
        (several.place / "a" / "valetkey.toml").unlink()
        assert several.reload() == 0
        wait_until(lambda: _status(f"{a.auth}/oauth/sign-in") == 421, every=0.1)
        assert _introspected(b, token)


def test_stored_setting_is_in_effect_at_its_own_issuer_only(tmp_path: Path) -> None:
    with _several(tmp_path, "a", "b") as several:
        config = str(several.place / "a" / "valetkey.toml")
        changed = valetkey(
            "settings", "set", "tokens.access_token_lifetime", "10m", "--config", config,
            here=several.place,
        )  # fmt: skip
        assert changed.code == 0, changed.err

        def lifetime(name: str) -> object:
            return several[name].ask("printer", **_LOGIN, password=PASSWORD).json()["expires_in"]

        wait_until(lambda: lifetime("a") == 600, every=0.2)
        assert lifetime("b") == 3_600


def _title(issuer: Serving) -> str:
    return UserAgent(issuer.auth).open(f"{issuer.auth}/oauth/sign-in").text


def test_two_configurations_of_one_host_are_refused(tmp_path: Path) -> None:
    with _several(tmp_path, "a") as several:
        a, ports = several["a"], (several["a"].auth[-5:], several["a"].api[-5:])
        twin = several.place / "twin" / "valetkey.toml"
        twin.parent.mkdir()
        twin.write_text(_configuration("a", ports))
        result = valetkey("reload", "--configs", str(several.place), here=several.place)
        assert result.code == 2
        assert "issuer twin" in result.err
        assert "authorization.url: the host is that of a" in result.err
        assert wait_until(lambda: several.events("issuer.failed"))[0]["issuer"] == "twin"
        assert _status(f"{a.auth}/health/ready") == 200


def test_overload_of_one_issuer_leaves_the_others(tmp_path: Path) -> None:
    with _several(tmp_path, "a", "b") as several:
        ports = (several["a"].auth[-5:], several["a"].api[-5:])
        _write(several.place, "a", ports, "[limits]\nrequests = 16\n")
        assert several.reload() == 0
        host = several["a"].auth

        def status(_: int) -> int:
            return several["a"].ask("printer", **_LOGIN, password="x").status_code

        def flood() -> bool:
            with ThreadPoolExecutor(64) as threads:
                return 503 in threads.map(status, range(128))

        wait_until(flood, every=0.1)
        assert several["b"].ask("printer", **_LOGIN, password=PASSWORD).status_code == 200
        assert _status(f"{host}/health/ready") == 200


class _Beginning:
    """Issuers whose requests take turns, and how many of each began."""

    def __init__(self) -> None:
        self.begun = Counter[str]()
        self._turns = Turns()

    async def answer(self, issuer: str) -> None:
        if turn := self._turns.next(issuer):
            await turn
        self.begun[issuer] += 1
        await rounds(5)

    async def flood(self, issuer: str) -> None:
        while True:
            await self.answer(issuer)


async def rounds(count: int) -> None:
    """Let the event loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_overload_of_one_issuer_delays_another_by_few_of_its_requests() -> None:
    async def story() -> None:
        it = _Beginning()
        floods = [asyncio.create_task(it.flood("a")) for _ in range(64)]
        await rounds(20)
        cancelled = [asyncio.create_task(it.answer("a")) for _ in range(64)]
        await rounds(1)
        for task in cancelled:
            task.cancel()
        for _ in range(50):
            before = it.begun["a"]
            await it.answer("b")
            # It takes six rounds, in each of which four requests of the other one begin.
            assert it.begun["a"] - before <= 4 * 7
        # The other one goes on, in the same measure.
        before = it.begun["a"]
        await rounds(100)
        assert it.begun["a"] - before >= 4 * 90
        for task in floods:
            task.cancel()
        await asyncio.gather(*(it.answer("b") for _ in range(60)))
        assert it.begun["b"] == 50 + 60

    asyncio.run(story())


def test_overload_of_one_issuer_leaves_introspections_of_the_other(tmp_path: Path) -> None:
    with _several(tmp_path, "a", "b") as several, ThreadPoolExecutor(64) as threads:
        tokens = {name: _tokens(issuer)["access_token"] for name, issuer in several.items()}
        over = Event()

        def flood(number: int) -> Counter[int]:
            statuses = Counter[int]()
            while not over.is_set():
                if number % 2:
                    answer = several["a"].ask("printer", **_LOGIN, password="x")
                else:
                    url = f"{several['a'].auth}/oauth/introspect"
                    form = {"token": tokens["a"]}
                    answer = requests.post(url, data=form, auth=_PRINTER, timeout=CEILING)
                statuses[answer.status_code] += 1
            return statuses

        floods = [threads.submit(flood, number) for number in range(64)]
        assert all(_introspected(several["b"], tokens["b"]) for _ in range(40))
        over.set()
        statuses = sum((future.result() for future in floods), Counter[int]())
        assert statuses.keys() <= {200, 400, 429, 503}
        assert statuses.total() >= 64


def test_incomplete_requests_occupy_no_slot(tmp_path: Path) -> None:
    with _several(tmp_path, "a") as several, ExitStack() as stack:
        ports = (several["a"].auth[-5:], several["a"].api[-5:])
        _write(several.place, "a", ports, "[limits]\nrequests = 16\n")
        assert several.reload() == 0
        wait_until(lambda: len(several.events("issuer.stopped")) == 2)
        head = (
            f"POST /oauth/token HTTP/1.1\r\nHost: {_HOSTS['a']}:{ports[0]}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n"
        )
        for _ in range(20):
            slow = stack.enter_context(socket.create_connection((_HOSTS["a"], int(ports[0]))))
            # The server asks for the body once the application waits for it.
            slow.sendall(head.replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n").encode())
            assert b"100 Continue" in slow.recv(100)
        answer = several["a"].ask("printer", **_LOGIN, password=PASSWORD)
        assert answer.status_code == 200, answer.text


def test_each_issuer_has_the_certificate_of_its_host(tmp_path: Path) -> None:
    hosts = {"a": "localhost", "b": "b.example"}
    folder = tmp_path / "issuers"
    folder.mkdir()
    files = {name: _certify(folder, name, host) for name, host in hosts.items()}
    with _several(tmp_path, *hosts, hosts=hosts) as several:
        ports = (several["a"].auth[-5:], several["a"].api[-5:])
        discovery, ready_path = "/.well-known/openid-configuration", "/health/ready"
        for name, host in hosts.items():
            assert _over_tls(ports[0], files[name], host, host, discovery) == 200
            assert _over_tls(ports[1], files[name], host, host, "/v2/notes") == 401

        def ready() -> bool:
            return _over_tls(ports[1], files["a"], "localhost", "localhost", ready_path) == 200

        # Its resource server reads the keys of its authorization server over TLS.
        wait_until(ready, every=0.1)
        # A connection is for the host in its handshake only, whatever the path.
        for port in ports:
            for path in (discovery, ready_path, "/v2/notes"):
                assert _over_tls(port, files["a"], "localhost", "b.example", path) == 421
                assert _over_tls(port, files["b"], "b.example", "localhost", path) == 421
        # A handshake for another host, or for none, shows no certificate.
        for name in ("c.example", "127.0.0.1"):
            with pytest.raises(ssl.SSLError):
                _over_tls(ports[0], files["a"], name, "localhost", discovery)
        _renewed_and_refused(several, ports[0], files["b"])


def _renewed_and_refused(several: Several, port: str, file: Path) -> None:
    """A new certificate is shown without a reload; one that is not for its host starts nothing."""

    def status() -> int:
        try:
            return _over_tls(port, file, "b.example", "b.example", "/health/ready")
        except ssl.SSLError:
            # The one before is still shown.
            return 0

    before = file.read_text()
    _certify(several.place, "b", "b.example")
    wait_until(lambda: status() == 200)
    assert before != file.read_text()
    _certify(several.place, "b", "other.example")
    (several.place / "b" / "valetkey.toml").touch()
    result = valetkey("reload", "--configs", str(several.place), here=several.place)
    assert result.code == 2
    assert "authorization.tls_certificate" in result.err
    assert "is not for b.example" in result.err
    wait_until(lambda: {line["issuer"] for line in several.events("issuer.failed")} == {"b"})
    _certify(several.place, "b", "b.example")
    assert several.reload() == 0
    wait_until(lambda: status() == 200)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ((".pem", ".gone"), "tls_certificate"),
        (("b.example", "127.0.0.1"), "several issuers with TLS need host names"),
        (("b.example", "localhost"), "the host is that of a"),
        (("https://b.example", "http://127.0.0.9"), "a has TLS and this one has not"),
        (('tls_certificate = "b.pem"\ntls_key = "b.pem"\n', ""), "has no ACME"),
    ],
)
def test_issuer_without_a_usable_certificate_is_named_at_start(
    tmp_path: Path, change: tuple[str, str], problem: str
) -> None:
    folder, ports = tmp_path / "issuers", _ports()
    folder.mkdir()
    for name, host in (("a", "localhost"), ("b", "b.example")):
        _certify(folder, name, host)
        text = _tls_configuration(name, host, ports)
        if name == "b":
            text = text.replace(*change)
            if change[1].startswith("http:"):
                text = text.replace('tls_certificate = "b.pem"\ntls_key = "b.pem"\n', "")
            if not change[1]:
                text += '[tls]\nacme = "https://ca.example/directory"\n'
        (folder / name / "valetkey.toml").write_text(text)
    result = valetkey("reload", "--configs", str(folder), here=folder)
    assert result.code == 2
    assert "issuer b stays as it is: " in result.err
    assert problem in result.err
    assert "issuer a stays" not in result.err
