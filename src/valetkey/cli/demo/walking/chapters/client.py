"""Chapters about an app as itself: its own token, its own record."""

from valetkey.cli.demo.site import DESK, PRINTER, UID
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import basic, bearer

_SCOPE = "client:read client:write"


def own_token(stage: WalkContext) -> None:
    """Client credentials: in the query string, in a form, with HTTP Basic."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Client credentials grant",
        "Notes Printer authenticates with its client ID and secret. No user is "
        "involved, so all it gets is access to its own record. The parameters go into the query "
        "string first, then into a form, then the secret goes into HTTP Basic. Last, the secret of "
        "another app: that one is no use.",
        "client_credentials S4 S8 S12 S15",
    ):
        asked = {"grant_type": "client_credentials"}
        given = {**asked, "client_id": PRINTER, "client_secret": site.secret(PRINTER)}
        answer = wire.send("POST", f"{site.auth_url}/token", query=given)
        got = stage.token(answer, _SCOPE)
        more = sorted({"refresh_token", "uid", "info"} & got.keys())
        story.check("nothing about a user", more, [])
        deprecation = answer.header("Deprecation")
        story.need("Deprecation", bool(deprecation), "a date", "nothing")
        story.right("the answer also says, in a header, that a URL is no place for a secret")

        answer = wire.send("POST", f"{site.auth_url}/token", form=given)
        stage.token(answer, _SCOPE)

        header = basic(PRINTER, site.secret(PRINTER))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=asked, headers=header)
        stage.got["itself"] = stage.token(answer, _SCOPE)

        header = basic(PRINTER, site.secret(DESK))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=asked, headers=header)
        stage.refused(answer, 401, "invalid_client")


def changes_itself(stage: WalkContext) -> None:
    """A client's redirect_uri and description, read and changed through the API (S22)."""
    site, story, wire = stage.site, stage.story, stage.wire
    elsewhere = f"{site.app_url}/printed"
    with story.chapter(
        "An app changes its own registration",
        "With the token of chapter 1, Notes Printer reads its own record, changes its redirect URI "
        "and its description, and uses the new URI at once. The old one is rejected.",
        "client_credentials S16 S22 S24",
    ):
        url, header = f"{site.api_url}/v2/client", bearer(str(stage.had("itself")["access_token"]))
        before = stage.read("client", stage.had("itself")["access_token"])
        story.check("client_id", before.text("client_id"), PRINTER)
        story.check("redirect_uri", before.text("redirect_uri"), site.callback)
        story.check("a secret in it", "secret" in before.body, False)
        story.right("the app reads its own record, and no secret is in it")

        changes = {"redirect_uri": elsewhere, "description": "Prints your notes, nicely"}
        answer = wire.send("PATCH", url, document=changes, headers=header)
        story.check("status", answer.status, 200)
        story.check("redirect_uri", answer.text("redirect_uri"), elsewhere)
        story.check("description", answer.text("description"), changes["description"])
        story.right("both are changed")

        asked, state = stage.authorize_url(PRINTER, elsewhere, scope="notes:read")
        code = stage.code(stage.ada.ask(asked), elsewhere, state)
        stage.token(stage.exchange(code, elsewhere), "notes:read", uid=UID)

        asked, _ = stage.authorize_url(PRINTER, site.callback, scope="notes:read")
        page = stage.ada.ask(asked)
        story.check("status", page.status, 400)
        story.check("sent to", page.location, "")
        story.right("Ada is not sent to the old address: she reads what is wrong instead")

        document = {"redirect_uri": site.callback, "description": before.text("description")}
        answer = wire.send("PUT", url, document=document, headers=header)
        story.check("status", answer.status, 200)
        story.check("redirect_uri", answer.text("redirect_uri"), site.callback)
        story.right("PUT gives every field, and everything is as it was")
