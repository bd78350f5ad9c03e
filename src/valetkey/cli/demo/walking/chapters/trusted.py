"""The chapter about the operator's own app, which may take passwords."""

from valetkey.cli.demo.site import DESK, EMAIL, NAME, PASSWORD, UID, USERNAME
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import basic, bearer


def password(stage: WalkContext) -> None:
    """The password grant (RFC 6749 section 4.3), with an access token by reference."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Password grant",
        "Front Desk is the operator's own app, and Ada types her password into it. Its tokens are "
        "references: random strings that the resource server introspects. The grant is disabled "
        "for every app until an administrator enables it.",
        "password S7",
    ):
        url, header = f"{site.auth_url}/oauth/token", basic(DESK, site.secret(DESK))
        form = {"grant_type": "password", "username": USERNAME, "password": PASSWORD}
        answer = wire.send("POST", url, form={**form, "scope": "read write"}, headers=header)
        got = stage.got[DESK] = stage.token(answer, "read write", uid=UID)

        answer = wire.send(
            "GET", f"{site.api_url}/v2/account", headers=bearer(str(got["access_token"]))
        )
        story.check("status", answer.status, 200)
        story.check("uid", answer.json.get("uid"), UID)
        story.check("name", answer.text("name"), NAME)
        story.check("email", answer.text("email"), EMAIL)
        story.right("the app reads Ada's account")

        form["password"] = "correct horse battery stapler"
        answer = wire.send("POST", url, form=form, headers=header)
        stage.refused(answer, 400, "invalid_grant")
