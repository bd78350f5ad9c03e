"""Flask behind a gate."""

from flask import Flask

from tests.sdk.adapters.stories import Answer, every_story, gate, role_story
from valetkey.sdk import Caller, demand
from valetkey.sdk.adapters.flask import Require, protect
from valetkey.sdk.testing import trusted


def test_view_accepts_and_refuses_tokens_as_rfc_6750_says() -> None:
    at = gate()
    app = Flask(__name__)
    require = protect(app, at)

    @app.get("/notes")
    @require("notes:read", "read")
    def notes(caller: Caller) -> dict[str, str]:
        return {"subject": caller.subject}

    @app.get("/any")
    @require()
    def any_token(caller: Caller) -> dict[str, str]:
        return {"subject": caller.subject}

    @app.get("/editors")
    @require("read", roles=("editor", "owner"))
    def editors(caller: Caller) -> dict[str, str]:
        return {"subject": caller.subject}

    @app.get("/late/<int:number>")
    @require("read")
    def late(caller: Caller, number: int) -> dict[str, int]:
        demand(caller, "admin")
        return {"number": number}

    with trusted(at) as mint:
        client = app.test_client()

        def ask(path: str, headers: dict[str, str]) -> Answer:
            answer = client.get(path, headers=headers)
            return Answer(answer.status_code, dict(answer.headers), answer.data)

        every_story(ask, mint)
        role_story(ask, mint)
        assert client.get("/late/7", headers=mint.headers("read")).status_code == 403
        assert client.get("/late/7", headers=mint.headers("read admin")).json == {"number": 7}


def test_views_can_be_protected_before_the_application_exists() -> None:
    at = gate()
    require = Require(at)

    @require("read")
    def view(caller: Caller) -> str:
        return caller.subject

    app = Flask(__name__)
    app.add_url_rule("/", "view", view)
    with trusted(at) as mint:
        assert app.test_client().get("/", headers=mint.headers("read")).text == "1001"
