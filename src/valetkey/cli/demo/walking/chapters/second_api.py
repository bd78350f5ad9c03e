"""The chapter about a second API: an app that asks for it by name gets a token for it alone."""

from valetkey.cli.demo.calendar_api import READ, WRITE
from valetkey.cli.demo.site import PRINTER, UID
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import bearer

CALENDAR = "calendar"
"""Where the chapter leaves the token response."""


def takes_its_own_tokens(stage: WalkContext) -> None:
    """Resource indicators (RFC 8707) and the metadata of an API (RFC 9728)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "A second API with its own tokens",
        "Calendar belongs to another team and is protected with valetkey.sdk. A request without a "
        "token learns which server issues them. Notes Printer requests it as resource, the consent "
        "page names Calendar, and the token is accepted by Calendar only.",
        "authorization_code S10 S11 S19",
    ):
        answer = wire.send("GET", site.calendar)
        story.check("status", answer.status, 401)
        challenge = answer.header("WWW-Authenticate")
        where = challenge.partition('resource_metadata="')[2].partition('"')[0]
        story.need("resource_metadata", bool(where), "a URL", challenge)
        answer = wire.send("GET", where)
        story.check("resource", answer.text("resource"), site.calendar)
        story.check("issuers", answer.json.get("authorization_servers"), [site.auth_url])
        story.check("scopes", answer.json.get("scopes_supported"), [READ, WRITE])
        story.right("the challenge leads to the API's metadata, and that to the issuer (RFC 9728)")

        scope = f"{READ} {WRITE}"
        asked, state = stage.authorize_url(
            PRINTER, site.callback, scope=scope, resource=site.calendar
        )
        code = stage.code(stage.ada.ask(asked), site.callback, state)
        answer = stage.exchange(code, site.callback, resource=site.calendar)
        got = stage.got[CALENDAR] = stage.token(answer, scope, uid=UID)
        token = bearer(str(got["access_token"]))

        answer = wire.send("GET", site.calendar, headers=token)
        story.check("status", answer.status, 200)
        story.check("events", answer.json.get("events"), ["Tea with Mr Babbage"])
        story.right("the token reads Ada's calendar")

        answer = wire.send("GET", f"{site.api_url}/v2/notes", headers=token)
        stage.invalid_token(answer, "her notes are behind another API")
        own = bearer(str(stage.had("itself")["access_token"]))
        answer = wire.send("GET", site.calendar, headers=own)
        story.check("status", answer.status, 401)
        story.right("and a token for the other API does not open Calendar")
