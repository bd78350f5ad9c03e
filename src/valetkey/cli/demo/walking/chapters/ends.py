"""Chapters about ends: a token's own, a code used twice, and Ada's second thoughts."""

from valetkey.cli.demo.site import DESK, POCKET, PRINTER, SHORT_LIFE, UID
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.cli.demo.wire import bearer


def expired(stage: WalkContext) -> None:
    """An expired token, and the refresh token that outlives it (S19, S20)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Token expiry and refresh",
        f"The access tokens of Pocket Notes expire after {SHORT_LIFE} seconds. The app gets new "
        "ones with its refresh token, without Ada. Since the app has no secret, each refresh "
        "replaces the refresh token.",
        "refresh_token S9 S13 S19 S20",
    ):
        got = stage.had(POCKET)
        url = f"{site.api_url}/v2/notes"
        answer, _ = wire.until(401, SHORT_LIFE + 2, "POST", url, bearer(str(got["access_token"])))
        stage.invalid_token(answer, "the token has expired")

        form = {
            "grant_type": "refresh_token",
            "client_id": POCKET,
            "refresh_token": str(got["refresh_token"]),
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form)
        fresh = stage.token(answer, "notes:read", expires_in=SHORT_LIFE, uid=UID)
        replaced = fresh.get("refresh_token") != got["refresh_token"]
        story.need("refresh_token", replaced, "another one", "the same")
        story.right("the refresh token was replaced")
        stage.read("notes", fresh["access_token"])
        story.right("the new token reads the notes")


def refreshed(stage: WalkContext) -> None:
    """S13 as it is written: everything in the query string."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "A confidential client refreshes, with parameters in the query string",
        "Notes Printer refreshes before its token expires, and requests fewer scopes than it was "
        "granted: it no longer needs the name and email address.",
        "refresh_token S9 S13 S15",
    ):
        asked = {
            "grant_type": "refresh_token",
            "client_id": PRINTER,
            "client_secret": site.secret(PRINTER),
            "refresh_token": str(stage.had(PRINTER)["refresh_token"]),
            "scope": "notes:read",
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", query=asked)
        got = stage.token(answer, "notes:read", uid=UID)
        story.check("info", got.get("info", {}), {})
        answer = wire.send(
            "GET", f"{site.api_url}/v2/account", headers=bearer(str(got["access_token"]))
        )
        story.check("status", answer.status, 403)
        story.right("the narrower token does not open Ada's account")


def replayed(stage: WalkContext) -> None:
    """A code is exchanged once; a second time ends what the first one gave (S18)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Code reuse",
        "An attacker intercepts a code and uses it a second time. The server cannot tell which of "
        "the two was legitimate, so it also revokes the tokens of the first exchange.",
        "authorization_code S18",
    ):
        asked, state = stage.authorize_url(PRINTER, site.callback, scope="notes:read")
        code = stage.code(stage.ada.ask(asked), site.callback, state)
        got = stage.token(stage.exchange(code, site.callback), "notes:read", uid=UID)
        stage.read("notes", got["access_token"])
        story.right("the first exchange is good, and its token reads")

        stage.refused(stage.exchange(code, site.callback), 400, "invalid_grant")
        stage.dies("notes", got["access_token"])
        form = {
            "grant_type": "refresh_token",
            "client_id": PRINTER,
            "client_secret": site.secret(PRINTER),
            "refresh_token": str(got["refresh_token"]),
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form)
        stage.refused(answer, 400, "invalid_grant")


def revoked(stage: WalkContext) -> None:
    """An authorization ended by the user, a token given back by its app (RFC 7009)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Revocation",
        "In Front Desk, Ada lists her connected apps and revokes the access of Notes Printer. Then "
        "Front Desk revokes its own token (RFC 7009). Both take effect at the resource server "
        "within 5 seconds.",
        "S14 S19 S24",
    ):
        desk = str(stage.had(DESK)["access_token"])
        answer = stage.read("authorizations", desk)
        listed = stage.items(answer)
        printers = [each for each in listed if each.get("client_id") == PRINTER]
        story.need("authorizations", bool(printers), f"one of {PRINTER} at least", str(listed))
        story.right(f"{len(listed)} authorizations, {len(printers)} of them Notes Printer's")

        for each in printers:
            url = f"{site.api_url}/v2/authorizations/{each['id']}"
            answer = wire.send("DELETE", url, headers=bearer(desk))
            story.check("status", answer.status, 204)
        story.right("they are gone")
        stage.dies("notes", stage.had(PRINTER)["access_token"])

        form = {"token": desk, "client_id": DESK, "client_secret": site.secret(DESK)}
        answer = wire.send("POST", f"{site.auth_url}/oauth/revoke", form=form)
        story.check("status", answer.status, 200)
        stage.dies("notes", desk)
