"""Chapters about apps that people open: one in a browser alone, and the example app."""

from valetkey.cli.demo.site import UID, VIEWER
from valetkey.cli.demo.walking.stage import WalkContext

_VIEWER_URI = "http://127.0.0.1:8410/viewer"
_TEN_MINUTES = 600


def implicit(stage: WalkContext) -> None:
    """The implicit grant: the token in the fragment (RFC 6749 section 4.2)."""
    story = stage.story
    with story.chapter(
        "Implicit grant",
        "Old Viewer runs in the browser and does not support PKCE. It gets an access token in the "
        "fragment of the redirect URI: short-lived, and without a refresh token. The grant is "
        "disabled for every app until an administrator enables it.",
        "implicit S6",
    ):
        asked, state = stage.authorize_url(VIEWER, _VIEWER_URI, response_type="token")
        page = stage.ada.ask(asked)
        told = stage.sent_back(page, _VIEWER_URI, state)
        story.check("anything in the query", "?" in page.location, False)
        story.check("token_type", told.get("token_type"), "bearer")
        story.check("scope", told.get("scope"), "notes:read")
        story.check("uid", told.get("uid"), str(UID))
        lives = int(told.get("expires_in", "0"))
        story.need("expires_in", 0 < lives <= _TEN_MINUTES, "600 seconds at most", str(lives))
        story.check("a refresh token", "refresh_token" in told, False)
        story.right("all of it in the fragment, ten minutes at most, no refresh token")

        answer = stage.read("notes", told.get("access_token", ""))
        story.check("notes", len(stage.items(answer)), stage.notes)
        story.right("the token reads Ada's notes")


def example_app(stage: WalkContext) -> None:
    """Notes Printer itself, as a person uses it."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "The sample app",
        "So far this program acted as the apps. Now Ada opens the example app itself, which runs "
        "as a separate process, and clicks Connect your notes.",
        "authorization_code S5 S10 S11 S14",
    ):
        answer = wire.send("GET", f"{site.app_url}/sign-in")
        story.check("status", answer.status, 303)
        cookie = answer.header("Set-Cookie").partition(";")[0]
        page = stage.ada.ask(answer.header("Location"))
        story.check("the browser is sent on", page.status, 303)
        story.need(
            "back to the app", page.location.startswith(site.app_url), site.app_url, page.location
        )
        back = wire.send("GET", page.location, headers={"Cookie": cookie})
        story.check("status", back.status, 303)
        answer = wire.send("GET", f"{site.app_url}/", headers={"Cookie": cookie})
        story.check("status", answer.status, 200)
        story.check("sheets of paper", answer.body.count("<article>"), stage.notes)
        story.right(f"the page shows Ada's {stage.notes} notes")
