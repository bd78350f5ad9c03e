"""A person signs in, and nobody else's answer is taken for theirs."""

import socket
from collections.abc import Callable
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import pytest

from tests.sdk.client.endpoint import Strict, strict
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.sdk.client import Rejected, Tokens
from valetkey.sdk.client.token_endpoint import TokenEndpoint, open_browser, sign_in
from valetkey.sdk.upstream.discovery import Issuer

Answer = Callable[[dict[str, str]], dict[str, str]]


def _fetch(url: str) -> int:
    try:
        with urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as refused:
        refused.close()
        return refused.code


def _sign_in(
    endpoint: Strict, *answers: Answer, issuer: Issuer | None = None, wait: float = 10
) -> tuple[Tokens, list[int]]:
    """Sign in while a browser comes back with these answers, one after the other."""
    statuses: list[int] = []
    browsers: list[Thread] = []

    def show(url: str) -> None:
        request = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}

        def browse() -> None:
            for answer in answers:
                query = urlencode(answer(request))
                statuses.append(_fetch(f"{request['redirect_uri']}?{query}"))

        browsers.append(Thread(target=browse))
        browsers[0].start()

    try:
        tokens = sign_in(
            issuer or endpoint.issuer,
            TokenEndpoint(f"{endpoint.url}/token", "tool", resource="https://api.example"),
            SYSTEM,
            scope="read",
            show=show,
            wait=wait,
        )
    finally:
        for browser in browsers:
            browser.join()
    return tokens, statuses


def _good(request: dict[str, str]) -> dict[str, str]:
    return {"code": "c1", "state": request["state"]}


def test_the_code_is_exchanged_with_the_verifier_of_the_challenge() -> None:
    with strict() as endpoint:
        tokens, statuses = _sign_in(endpoint, _good)
    assert statuses == [200]
    assert tokens.refresh_token is not None
    form = endpoint.forms[0]
    assert (form["grant_type"], form["code"], form["client_id"]) == (
        "authorization_code",
        "c1",
        "tool",
    )
    assert form["redirect_uri"].startswith("http://127.0.0.1:")
    assert len(form["code_verifier"]) == 43
    assert form["resource"] == "https://api.example"


def test_response_with_a_wrong_state_is_refused_and_the_wait_continues() -> None:
    with strict() as endpoint:
        _, statuses = _sign_in(
            endpoint,
            lambda _: {"code": "evil"},
            lambda _: {"code": "evil", "state": "wrong"},
            lambda request: {"code": "evil", "state": request["state"] + "x"},
            lambda request: {f"p{n}": "x" for n in range(30)} | _good(request),
            _good,
        )
    assert statuses == [404, 404, 404, 404, 200]
    assert [form["code"] for form in endpoint.forms] == ["c1"]


def test_callback_with_a_repeated_parameter_or_other_path_is_not_found() -> None:
    with strict() as endpoint:

        def odd(request: dict[str, str]) -> dict[str, str]:
            home = request["redirect_uri"]
            pair = urlencode(_good(request))
            assert _fetch(f"{home}?{pair}&code=c2") == 404
            assert _fetch(f"{home}/more?{pair}") == 404
            assert _fetch(f"{home}?{pair}&x=%ff") == 404
            return _good(request)

        _, statuses = _sign_in(endpoint, odd)
    assert statuses == [200]


def test_idle_connection_does_not_block_the_callback() -> None:
    with strict() as endpoint:

        def idle(request: dict[str, str]) -> dict[str, str]:
            parts = urlsplit(request["redirect_uri"])
            connections.append(socket.create_connection((parts.hostname, parts.port)))
            return _good(request)

        connections: list[socket.socket] = []
        _sign_in(endpoint, idle)
        connections[0].close()


def test_code_from_another_issuer_is_not_exchanged() -> None:
    with strict() as endpoint:
        naming = replace(endpoint.issuer, names_itself=True)
        other: Answer = lambda request: _good(request) | {"iss": "https://evil.example"}  # noqa: E731
        for issuer, answer in ((endpoint.issuer, other), (naming, other), (naming, _good)):
            with pytest.raises(Rejected, match="another authorization server"):
                _sign_in(endpoint, answer, issuer=issuer)
        assert endpoint.forms == []
        _sign_in(endpoint, lambda request: _good(request) | {"iss": endpoint.url}, issuer=naming)


def test_refused_sign_in_raises_the_error_of_the_issuer() -> None:
    with strict() as endpoint:
        with pytest.raises(Rejected, match="access_denied: Ada said no"):
            _sign_in(
                endpoint,
                lambda request: {
                    "error": "access_denied",
                    "error_description": "Ada said no",
                    "state": request["state"],
                },
            )
        with pytest.raises(Rejected, match="no code"):
            _sign_in(endpoint, lambda request: {"state": request["state"]})


def test_sign_in_without_a_callback_times_out() -> None:
    with strict() as endpoint, pytest.raises(TimeoutError):
        _sign_in(endpoint, wait=0.1)


@pytest.mark.parametrize("there", [True, False])
def test_sign_in_url_is_printed_where_no_browser_opens(
    there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def browser(url: str) -> bool:
        opened.append(url)
        return there

    monkeypatch.setattr("webbrowser.open", browser)
    open_browser("https://as.example/start")
    assert opened == ["https://as.example/start"]
    output = capsys.readouterr()
    assert output.out == ""
    assert ("https://as.example/start" in output.err) is not there
