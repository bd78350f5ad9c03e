"""The chapter about a group: a role at an API, an app reserved for members, a claim."""

from valetkey.cli.demo.calendar_api import PLANNER, READ, WRITE
from valetkey.cli.demo.site import (
    CLUB,
    CLUB_CALLBACK,
    GROUP,
    OWNER,
    OWNER_PASSWORD,
    OWNER_UID,
    PRINTER,
)
from valetkey.cli.demo.walking.browser import Browser
from valetkey.cli.demo.walking.chapters.second_api import CALENDAR
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import basic, bearer


def members_may_do_more(stage: WalkContext) -> None:
    """What Ada may do as a member, and Grace may not."""
    site, story, wire = stage.site, stage.story, stage.wire
    grace = Browser(site.auth_url, wire, OWNER, OWNER_PASSWORD)
    event = {"title": "Reading club"}
    with story.chapter(
        "Groups and API roles",
        f"Ada is in the group {GROUP}, Grace is not. The group has the role {PLANNER} at Calendar, "
        "and Reading Club is restricted to its members. Both users authorize the same apps; what "
        "they get depends on the group.",
        "authorization_code openid S10",
    ):
        token = bearer(str(stage.had(CALENDAR)["access_token"]))
        answer = wire.send("POST", site.calendar, document=event, headers=token)
        story.check("status", answer.status, 201)
        story.right(f"Ada's token has the role {PLANNER}, and adds an event")

        scope = f"{READ} {WRITE}"
        asked, state = stage.authorize_url(
            PRINTER, site.callback, scope=scope, resource=site.calendar
        )
        code = stage.code(grace.ask(asked), site.callback, state)
        answer = stage.exchange(code, site.callback, resource=site.calendar)
        got = stage.token(answer, scope, uid=OWNER_UID)
        token = bearer(str(got["access_token"]))
        answer = wire.send("POST", site.calendar, document=event, headers=token)
        story.check("status", answer.status, 403)
        story.right("Grace's token has the same scopes and no role: 403")

        asked, state = stage.authorize_url(
            CLUB, CLUB_CALLBACK, scope="openid groups", nonce="any-value"
        )
        told = stage.sent_back(grace.ask(asked), CLUB_CALLBACK, state)
        story.check("error", told.get("error"), "access_denied")
        story.right("Grace is no member: Reading Club gets access_denied and no code")

        code = stage.code(stage.ada.ask(asked), CLUB_CALLBACK, state)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CLUB_CALLBACK,
        }
        header = basic(CLUB, site.secret(CLUB))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
        story.check("status", answer.status, 200)
        known = bearer(answer.text("access_token"))
        answer = wire.send("GET", f"{site.auth_url}/oauth/userinfo", headers=known)
        story.check("groups", answer.json.get("groups"), [GROUP])
        story.right(f"Ada may sign in, and the claim groups names {GROUP}")
