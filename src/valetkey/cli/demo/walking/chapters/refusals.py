"""Chapters about no: to a part, to everything."""

from valetkey.cli.demo.site import PRINTER, UID
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import bearer


def partly(stage: WalkContext) -> None:
    """Check one of two boxes; the app then cannot use the other permission (S3)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Partial consent",
        "This time Notes Printer also wants to change her notes. Ada clears that checkbox. The "
        "app gets a token that can read, and its write request is rejected.",
        "authorization_code S3 S14",
    ):
        asked, state = stage.authorize_url(
            PRINTER, site.callback, scope="notes:read notes:write", prompt="consent"
        )
        page = stage.ada.ask(asked, allows=("notes:read",))
        code = stage.code(page, site.callback, state)
        got = stage.token(stage.exchange(code, site.callback), "notes:read", uid=UID)

        answer = wire.send(
            "POST",
            f"{site.api_url}/v2/notes",
            document={"title": "Not by Ada"},
            headers=bearer(str(got["access_token"])),
        )
        story.check("status", answer.status, 403)
        story.check("title", answer.text("title"), "Insufficient Scope Error")
        challenge = answer.header("WWW-Authenticate")
        story.need(
            "WWW-Authenticate",
            'error="insufficient_scope"' in challenge and "notes:write" in challenge,
            'error="insufficient_scope" and the scope that is needed',
            challenge,
        )
        story.right("403, and the challenge names the scope that is missing")
        answer = stage.read("notes", got["access_token"])
        story.check("notes", len(stage.items(answer)), stage.notes)
        story.right("no note was written")


def no(stage: WalkContext) -> None:
    """A denied consent."""
    site, story = stage.site, stage.story
    with story.chapter(
        "Consent denied",
        "The app asks again, and Ada denies access. The app receives access_denied and no code.",
        "authorization_code S10",
    ):
        asked, state = stage.authorize_url(
            PRINTER, site.callback, scope="notes:write", prompt="consent"
        )
        page = stage.ada.ask(asked, denies=True)
        told = stage.sent_back(page, site.callback, state)
        story.check("error", told.get("error"), "access_denied")
        story.check("a code", "code" in told, False)
        story.right("access_denied, and no code")
