"""Chapters about the limits of a token: its scopes, its API, its groups, and its end."""

from valetkey.cli.demo.site import (
    CLUB,
    CLUB_CALLBACK,
    DESK,
    FIRST,
    GROUP,
    OWNER,
    OWNER_PASSWORD,
    OWNER_UID,
    PLANNER,
    POCKET,
    PRINTER,
    READ,
    SHORT_LIFE,
    UID,
    WRITE,
)
from valetkey.cli.demo.walking.stage import Browser, WalkContext
from valetkey.cli.demo.wire import basic, bearer


def expired(stage: WalkContext) -> None:
    """Use an expired token, then its refresh token, which lives longer (S19, S20)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Token expiry and refresh",
        f"The access tokens of Pocket Notes expire after {SHORT_LIFE} seconds. The app gets new "
        "ones with its refresh token, without Ada. Since the app has no secret, each refresh "
        "replaces the refresh token.",
        "refresh_token S9 S13 S19 S20",
    ):
        got = stage.received(POCKET)
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
    """Refresh as S13 specifies it: every parameter in the query string."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "A confidential client refreshes, with parameters in the query string",
        "Notes Printer refreshes before its token expires, and requests fewer scopes than it was "
        "granted: it no longer needs the name and email address.",
        "refresh_token S9 S13 S15",
    ):
        form = {
            "grant_type": "refresh_token",
            "client_id": PRINTER,
            "client_secret": site.secret(PRINTER),
            "refresh_token": str(stage.received(PRINTER)["refresh_token"]),
            "scope": "notes:read",
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", query=form)
        got = stage.token(answer, "notes:read", uid=UID)
        story.check("info", got.get("info", {}), {})
        answer = wire.send(
            "GET", f"{site.api_url}/v2/account", headers=bearer(str(got["access_token"]))
        )
        story.check("status", answer.status, 403)
        story.right("the narrower token does not open Ada's account")


def replayed(stage: WalkContext) -> None:
    """Exchange a code twice; the second exchange revokes the tokens of the first (S18)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Code reuse",
        "An attacker intercepts a code and uses it a second time. The server cannot tell which of "
        "the two was legitimate, so it also revokes the tokens of the first exchange.",
        "authorization_code S18",
    ):
        url, state = stage.authorize_url(PRINTER, site.callback, scope="notes:read")
        code = stage.code(stage.ada.authorize(url), site.callback, state)
        got = stage.token(stage.exchange(code, site.callback), "notes:read", uid=UID)
        stage.read("notes", got["access_token"])
        story.right("the first exchange is good, and its token reads")

        stage.refused(stage.exchange(code, site.callback), 400, "invalid_grant")
        stage.expires("notes", got["access_token"])
        form = {
            "grant_type": "refresh_token",
            "client_id": PRINTER,
            "client_secret": site.secret(PRINTER),
            "refresh_token": str(got["refresh_token"]),
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form)
        stage.refused(answer, 400, "invalid_grant")


def revoked(stage: WalkContext) -> None:
    """Revoke a grant as the user, and a token as its app (RFC 7009)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Revocation",
        "In Front Desk, Ada lists her connected apps and revokes the access of Notes Printer. Then "
        "Front Desk revokes its own token (RFC 7009). Both take effect at the resource server "
        "within 5 seconds.",
        "S14 S19 S24",
    ):
        desk = str(stage.received(DESK)["access_token"])
        answer = stage.read("authorizations", desk)
        listed = stage.items(answer)
        printers = [
            authorization for authorization in listed if authorization.get("client_id") == PRINTER
        ]
        story.need("authorizations", bool(printers), f"one of {PRINTER} at least", str(listed))
        story.right(f"{len(listed)} authorizations, {len(printers)} of them Notes Printer's")

        for authorization in printers:
            url = f"{site.api_url}/v2/authorizations/{authorization['id']}"
            answer = wire.send("DELETE", url, headers=bearer(desk))
            story.check("status", answer.status, 204)
        story.right("they are gone")
        stage.expires("notes", stage.received(PRINTER)["access_token"])

        form = {"token": desk, "client_id": DESK, "client_secret": site.secret(DESK)}
        answer = wire.send("POST", f"{site.auth_url}/oauth/revoke", form=form)
        story.check("status", answer.status, 200)
        stage.expires("notes", desk)


def allow_partly(stage: WalkContext) -> None:
    """Check one of two boxes; the app then cannot use the other permission (S3)."""
    site, story, wire = stage.site, stage.story, stage.wire
    with story.chapter(
        "Partial consent",
        "This time Notes Printer also wants to change her notes. Ada clears that checkbox. The "
        "app gets a token that can read, and its write request is rejected.",
        "authorization_code S3 S14",
    ):
        url, state = stage.authorize_url(
            PRINTER, site.callback, scope="notes:read notes:write", prompt="consent"
        )
        page = stage.ada.authorize(url, allows=("notes:read",))
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


def deny_consent(stage: WalkContext) -> None:
    """Deny consent."""
    site, story = stage.site, stage.story
    with story.chapter(
        "Consent denied",
        "The app asks again, and Ada denies access. The app receives access_denied and no code.",
        "authorization_code S10",
    ):
        url, state = stage.authorize_url(
            PRINTER, site.callback, scope="notes:write", prompt="consent"
        )
        page = stage.ada.authorize(url, denies=True)
        redirected = stage.sent_back(page, site.callback, state)
        story.check("error", redirected.get("error"), "access_denied")
        story.check("a code", "code" in redirected, False)
        story.right("access_denied, and no code")


CALENDAR = "calendar"
"""The key under which the chapter stores the token response."""


def resource_indicators(stage: WalkContext) -> None:
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
        url, state = stage.authorize_url(
            PRINTER, site.callback, scope=scope, resource=site.calendar
        )
        code = stage.code(stage.ada.authorize(url), site.callback, state)
        answer = stage.exchange(code, site.callback, resource=site.calendar)
        got = stage.got[CALENDAR] = stage.token(answer, scope, uid=UID)
        token = bearer(str(got["access_token"]))

        answer = wire.send("GET", site.calendar, headers=token)
        story.check("status", answer.status, 200)
        story.check("events", answer.json.get("events"), [FIRST])
        story.right("the token reads Ada's calendar")

        answer = wire.send("GET", f"{site.api_url}/v2/notes", headers=token)
        stage.invalid_token(answer, "her notes are behind another API")
        own = bearer(str(stage.received("itself")["access_token"]))
        answer = wire.send("GET", site.calendar, headers=own)
        story.check("status", answer.status, 401)
        story.right("and a token for the other API does not open Calendar")


def role_at_api(stage: WalkContext) -> None:
    """Add an event as Ada, whose group has the role, and be refused as Grace."""
    site, story, wire = stage.site, stage.story, stage.wire
    grace = Browser(site.auth_url, wire, OWNER, OWNER_PASSWORD)
    event = {"title": "Reading club, Thursday at 19:00"}
    with story.chapter(
        "Groups and API roles",
        f"Ada is in the group {GROUP}, Grace is not. The group has the role {PLANNER} at Calendar, "
        "and Reading Club is restricted to its members. Both users authorize the same apps; what "
        "they get depends on the group.",
        "authorization_code openid S10",
    ):
        token = bearer(str(stage.received(CALENDAR)["access_token"]))
        answer = wire.send("POST", site.calendar, document=event, headers=token)
        story.check("status", answer.status, 201)
        story.right(f"Ada's token has the role {PLANNER}, and adds an event")

        scope = f"{READ} {WRITE}"
        url, state = stage.authorize_url(
            PRINTER, site.callback, scope=scope, resource=site.calendar
        )
        code = stage.code(grace.authorize(url), site.callback, state)
        answer = stage.exchange(code, site.callback, resource=site.calendar)
        got = stage.token(answer, scope, uid=OWNER_UID)
        token = bearer(str(got["access_token"]))
        answer = wire.send("POST", site.calendar, document=event, headers=token)
        story.check("status", answer.status, 403)
        story.right("Grace's token has the same scopes and no role: 403")

        url, state = stage.authorize_url(
            CLUB, CLUB_CALLBACK, scope="openid groups", nonce="any-value"
        )
        redirected = stage.sent_back(grace.authorize(url), CLUB_CALLBACK, state)
        story.check("error", redirected.get("error"), "access_denied")
        story.right("Grace is no member: Reading Club gets access_denied and no code")

        code = stage.code(stage.ada.authorize(url), CLUB_CALLBACK, state)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CLUB_CALLBACK,
        }
        header = basic(CLUB, site.secret(CLUB))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
        story.check("status", answer.status, 200)
        bearer_header = bearer(answer.text("access_token"))
        answer = wire.send("GET", f"{site.auth_url}/oauth/userinfo", headers=bearer_header)
        story.check("groups", answer.json.get("groups"), [GROUP])
        story.right(f"Ada may sign in, and the claim groups names {GROUP}")
