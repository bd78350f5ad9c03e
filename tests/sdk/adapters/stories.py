"""What every adapter does alike: two routes, `/notes` for a scope and `/any` for any token."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from valetkey.kernel.moment import Lifetime
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.testing import Mint

AUDIENCE = "https://api.example/v2"
METADATA = "/.well-known/oauth-protected-resource/v2"


@dataclass(frozen=True)
class Answer:
    """What an application said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        fields = {key.lower(): value for key, value in self.headers.items()}
        return fields.get(name, "")


Ask = Callable[[str, dict[str, str]], Answer]


def gate() -> Gate:
    """A gate of an API whose issuer does not exist."""
    return Gate("https://as.example", audience=AUDIENCE, name="Notes", scopes=["write"])


def every_story(ask: Ask, mint: Mint, *, wide: bool = True) -> None:
    """Ask for everything that an adapter must answer; `wide`: `/any` needs no scope."""
    _welcome(ask, mint)
    _refusals(ask, mint)
    _metadata(ask)
    if wide:
        assert ask("/any", mint.headers("")).status == 200


def role_story(ask: Ask, mint: Mint) -> None:
    """`/editors` needs the scope `read`, and the role `editor` or `owner`."""

    def asked(scope: str, roles: object) -> Answer:
        token = mint.token(scope, claims={"roles": roles})
        return ask("/editors", {"Authorization": f"Bearer {token}"})

    for roles in (["editor"], ["reader", "owner"]):
        assert asked("read", roles).status == 200
    for other in ([], ["reader"], ["Editor"], "editor", ["editor", 1]):
        answer = asked("read", other)
        assert (answer.status, answer.json()["code"]) == (403, "forbidden")
        assert answer.json()["detail"] == "this needs the role editor or owner"
        # No other token would help.
        assert not answer.header("www-authenticate")
    assert asked("write", ["editor"]).json()["code"] == "insufficient_scope"
    assert ask("/editors", mint.headers("read")).status == 403


def _welcome(ask: Ask, mint: Mint) -> None:
    for headers in (
        mint.headers("notes:read"),
        mint.headers("account:read read"),
        {"Authorization": f"bearer {mint.reference('read')}"},
    ):
        answer = ask("/notes", headers)
        assert (answer.status, answer.json()) == (200, {"subject": "1001"})


def _refusals(ask: Ask, mint: Mint) -> None:
    nobody = ask("/notes", {})
    assert nobody.status == 401
    challenge = nobody.header("www-authenticate")
    assert challenge == (
        f'Bearer realm="{AUDIENCE}", scope="notes:read",'
        f' resource_metadata="https://api.example{METADATA}"'
    )
    ended = mint.reference("read")
    mint.end(ended)
    for token in (
        "rubbish",
        ended,
        mint.token("read", lifetime=Lifetime(0)),
        mint.token("read", audience="https://other.example"),
        Mint(AUDIENCE, mint.issuer).token("read"),
    ):
        _problem(ask("/notes", {"Authorization": f"Bearer {token}"}), 401, "invalid_token")
    for odd in ("Bearer", "Bearer  x", "Bearer x y", "Bearer " + "x" * 17_000, "bearer ==="):
        _problem(ask("/notes", {"Authorization": odd}), 401, "invalid_token")
    for other in ("Basic YTpi", "DPoP x", "x"):
        answer = ask("/notes", {"Authorization": other})
        assert (answer.status, answer.header("www-authenticate")) == (401, challenge)
    _problem(ask("/notes", mint.headers("notes:write")), 403, "insufficient_scope")
    _problem(ask("/notes", {"Authorization": "Bearer a, Bearer b"}), 401, "invalid_token")


def _problem(answer: Answer, status: int, code: str) -> None:
    assert answer.status == status
    assert answer.header("content-type") == "application/problem+json"
    challenge = answer.header("www-authenticate")
    assert f'error="{code}"' in challenge
    assert 'resource_metadata="' in challenge
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["type"] == f"https://as.example/errors/{code}"


def _metadata(ask: Ask) -> None:
    answer = ask(METADATA, {})
    assert answer.status == 200
    assert answer.header("content-type") == "application/json"
    document = answer.json()
    assert document["resource"] == AUDIENCE
    assert document["authorization_servers"] == ["https://as.example"]
    assert {"write", "notes:read", "read"} == set(document["scopes_supported"])
