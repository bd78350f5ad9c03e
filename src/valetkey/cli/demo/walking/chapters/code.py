"""Chapters about the authorization code: an app with a secret, and one without."""

from hashlib import sha256

from valetkey.cli.demo.site import EMAIL, NAME, POCKET, PRINTER, SHORT_LIFE, UID
from valetkey.cli.demo.walking.stage import WalkContext
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url


def lets_an_app_in(stage: WalkContext) -> None:
    """The whole grant as S10, S11 and S14 write it, without PKCE."""
    site, story = stage.site, stage.story
    scope = "notes:read account:read"
    with story.chapter(
        "Authorization code grant",
        "Notes Printer redirects Ada's browser to the authorization server. She signs in there, "
        "reviews the requested permissions, and allows them. The redirect back to the app carries "
        "a code, which the app exchanges for tokens, server to server.",
        "authorization_code S5 S10 S11 S14 S17",
    ):
        asked, state = stage.authorize_url(PRINTER, site.callback, scope=scope)
        code = stage.code(stage.ada.ask(asked), site.callback, state)

        answer = stage.exchange(code, site.callback)
        got = stage.got[PRINTER] = stage.token(answer, scope, uid=UID)
        info = stage.info(answer)
        story.check("name", info.get("name"), NAME)
        story.check("email", info.get("email"), EMAIL)
        story.need("refresh_token", bool(answer.text("refresh_token")), "a string", "nothing")
        story.right("with it a refresh token, and what Ada lets the app know about her")

        answer = stage.read("notes", got["access_token"])
        story.check("notes", len(stage.items(answer)), stage.notes)
        story.right("the app reads Ada's notes, with a POST that has no body")


def without_a_secret(stage: WalkContext) -> None:
    """PKCE (RFC 7636): a public client."""
    site, story, wire = stage.site, stage.story, stage.wire
    # A native app takes whatever port is free (RFC 8252 section 7.3).
    callback = "http://127.0.0.1:8499/pocket"
    verifier = to_base64url(SYSTEM.random(32))
    challenge = to_base64url(sha256(verifier.encode()).digest())
    with story.chapter(
        "A public client with PKCE",
        "Pocket Notes generates a verifier, sends its hash in the authorization request, and the "
        "verifier itself with the code (PKCE). A stolen code is useless without it. Ada is already "
        "signed in, so she sees only the consent page.",
        "authorization_code S5 S10 S11",
    ):
        asked, state = stage.authorize_url(
            POCKET,
            callback,
            scope="notes:read",
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        code = stage.code(stage.ada.ask(asked), callback, state)
        form = {
            "grant_type": "authorization_code",
            "client_id": POCKET,
            "code": code,
            "redirect_uri": callback,
            "code_verifier": verifier,
        }
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form)
        got = stage.token(answer, "notes:read", expires_in=SHORT_LIFE, uid=UID)
        stage.got[POCKET] = got
        story.need("refresh_token", bool(answer.text("refresh_token")), "a string", "nothing")
        stage.read("notes", got["access_token"])
        story.right("its token reads the notes, as long as it lives")
