"""curl with the query strings of S11 to S14, as the specification's examples spell them."""

import json
from dataclasses import dataclass
from subprocess import run
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tests.clients.site import REFERENCE, SPA, UID, WEB, LocalSite, secret_of
from tests.support.live import CALLBACK
from tests.support.wait import CEILING
from valetkey.kernel.moment import hours

# What the examples leave as it is, a shell and a query string do too; the rest must be encoded.
SECRET = quote(secret_of(WEB), safe=":")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: dict[str, object]

    def text(self, name: str) -> str:
        value = self.body[name]
        assert isinstance(value, str)
        return value


def ask(curl: str, *arguments: str) -> Answer:
    """What curl shows: with --include the head, an empty line, and the body."""
    output = run(
        [curl, "--silent", "--show-error", "--include", "--max-time", "20", *arguments],
        capture_output=True,
        check=True,
        timeout=CEILING,
    ).stdout.decode()
    head, _, body = output.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split(" ")[1]), headers, json.loads(body))


def code_for(world: LocalSite, client_id: str = WEB) -> str:
    arrived = world.arrive(
        f"{world.authorize}?response_type=code&client_id={client_id}"
        f"&redirect_uri={CALLBACK}&scope=account:read%20notes:read"
    )
    return parse_qs(urlsplit(arrived).query)["code"][0]


def exchange(world: LocalSite, code: str, client_id: str = WEB, secret: str = SECRET) -> str:
    """S11, letter by letter: the redirect URI stands there as it was registered."""
    return (
        f"{world.token}?grant_type=authorization_code&client_id={client_id}"
        f"&client_secret={secret}&code={code}&redirect_uri={CALLBACK}"
    )


def refresh(world: LocalSite, token: str) -> str:
    """S13."""
    return (
        f"{world.token}?grant_type=refresh_token&client_id={WEB}&client_secret={SECRET}"
        f"&refresh_token={token}"
    )


def client_credentials(world: LocalSite) -> str:
    """S12: this path has no `oauth` segment."""
    return (
        f"{world.issuer}/token?grant_type=client_credentials&client_id={WEB}&client_secret={SECRET}"
    )


def is_a_token_response(answer: Answer) -> None:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body["token_type"] == "bearer"
    assert answer.body["expires_in"] == 3600


# Without a body curl sends neither length nor type; with an empty one it sends both.
@pytest.mark.parametrize("empty_body", [(), ("--data", "")], ids=["no body", "empty body"])
def test_code_flow_in_the_query_string_succeeds(
    own_world: LocalSite, curl: str, empty_body: tuple[str, ...]
) -> None:
    world = own_world
    post = ("--request", "POST", *empty_body)
    first = ask(curl, *post, exchange(world, code_for(world)))
    is_a_token_response(first)
    assert first.body["scope"] == "account:read notes:read"
    assert first.body["uid"] == UID

    bearer = f"Authorization: Bearer {first.text('access_token')}"
    read = ask(curl, *post, "--header", bearer, f"{world.api}/account")
    assert (read.status, read.body["uid"]) == (200, UID)
    assert ask(curl, *post, "--header", bearer, f"{world.api}/notes").status == 200

    world.servers.clock.forward(hours(2))
    late = ask(curl, *post, "--header", bearer, f"{world.api}/notes")
    assert (late.status, late.body["title"]) == (401, "Invalid Token Error")
    assert 'error="invalid_token"' in late.headers["www-authenticate"]

    second = ask(curl, *post, refresh(world, first.text("refresh_token")))
    is_a_token_response(second)
    bearer = f"Authorization: Bearer {second.text('access_token')}"
    assert ask(curl, *post, "--header", bearer, f"{world.api}/notes").status == 200


def test_client_credentials_token_manages_its_own_client(world: LocalSite, curl: str) -> None:
    answer = ask(curl, "--request", "POST", client_credentials(world))
    is_a_token_response(answer)
    assert answer.body["scope"] == "client:read client:write"
    assert {"refresh_token", "uid", "info"}.isdisjoint(answer.body)
    bearer = f"Authorization: Bearer {answer.text('access_token')}"
    record = ask(curl, "--request", "POST", "--header", bearer, f"{world.api}/client")
    assert (record.status, record.body["client_id"]) == (200, WEB)
    changed = ask(
        curl, "--request", "PATCH", "--header", bearer,
        "--header", "Content-Type: application/merge-patch+json",
        "--data", '{"description": "Prints your notes"}', f"{world.api}/client",
    )  # fmt: skip
    assert (changed.status, changed.body["description"]) == (200, "Prints your notes")


def test_reference_token_is_accepted_in_a_post_request(world: LocalSite, curl: str) -> None:
    secret = quote(secret_of(REFERENCE), safe=":")
    url = exchange(world, code_for(world, REFERENCE), REFERENCE, secret)
    answer = ask(curl, "--request", "POST", url)
    is_a_token_response(answer)
    assert answer.text("access_token").count(".") < 2
    bearer = f"Authorization: Bearer {answer.text('access_token')}"
    assert ask(curl, "--request", "POST", "--header", bearer, f"{world.api}/notes").status == 200


@pytest.mark.parametrize("where", ["body", "basic"])
def test_code_flow_in_the_body_and_with_basic_succeeds(
    world: LocalSite, curl: str, where: str
) -> None:
    code = ("--data-urlencode", f"code={code_for(world)}")
    rest = (
        "--data",
        "grant_type=authorization_code",
        "--data-urlencode",
        f"redirect_uri={CALLBACK}",
    )
    user = ("--user", f"{WEB}:{secret_of(WEB)}")
    if where == "body":
        own = ("--data", f"client_id={WEB}", "--data-urlencode", f"client_secret={secret_of(WEB)}")
        answer = ask(curl, *rest, *code, *own, world.token)
    else:
        answer = ask(curl, *rest, *code, *user, world.token)
    is_a_token_response(answer)


def test_code_flow_with_basic_and_query_string_succeeds(world: LocalSite, curl: str) -> None:
    answer = ask(
        curl, "--request", "POST", "--user", f"{WEB}:{secret_of(WEB)}",
        f"{world.token}?grant_type=authorization_code&code={code_for(world)}"
        f"&redirect_uri={CALLBACK}",
    )  # fmt: skip
    is_a_token_response(answer)


def test_public_client_flow_in_the_query_string_succeeds(world: LocalSite, curl: str) -> None:
    arrived = world.arrive(
        f"{world.authorize}?response_type=code&client_id={SPA}&redirect_uri={CALLBACK}"
        "&scope=notes:read&code_challenge_method=S256"
        "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )
    code = parse_qs(urlsplit(arrived).query)["code"][0]
    answer = ask(
        curl, "--request", "POST",
        f"{world.token}?grant_type=authorization_code&client_id={SPA}&code={code}"
        f"&redirect_uri={CALLBACK}&code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    )  # fmt: skip
    is_a_token_response(answer)


def test_get_token_request_is_refused_with_allow_post(world: LocalSite, curl: str) -> None:
    answer = ask(curl, client_credentials(world))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_code_that_was_used_is_an_invalid_grant(world: LocalSite, curl: str) -> None:
    url = exchange(world, code_for(world))
    is_a_token_response(ask(curl, "--request", "POST", url))
    again = ask(curl, "--request", "POST", url)
    assert (again.status, again.body["error"]) == (400, "invalid_grant")
    explained = f"{world.issuer}/errors/invalid_grant?reference={again.body['reference']}"
    assert again.body["error_uri"] == explained


def test_query_and_body_together_are_an_invalid_request(world: LocalSite, curl: str) -> None:
    answer = ask(curl, "--data", "scope=client:read", client_credentials(world))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
