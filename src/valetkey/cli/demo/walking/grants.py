"""Chapters about obtaining a token: each grant type, and sign-in with OpenID Connect."""

from base64 import b64encode
from hashlib import sha256

from valetkey.cli.demo.site import (
    CLUB,
    CLUB_BACK,
    CLUB_CALLBACK,
    DESK,
    EMAIL,
    NAME,
    PASSWORD,
    POCKET,
    PRINTER,
    SHORT_LIFE,
    UID,
    USERNAME,
    VIEWER,
    verify_app,
)
from valetkey.cli.demo.walking.stage import HOUR, WalkContext
from valetkey.cli.demo.wire import Reply, basic, bearer
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url

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
        form = {"grant_type": "client_credentials"}
        parameters = {**form, "client_id": PRINTER, "client_secret": site.secret(PRINTER)}
        answer = wire.send("POST", f"{site.auth_url}/token", query=parameters)
        got = stage.token(answer, _SCOPE)
        more = sorted({"refresh_token", "uid", "info"} & got.keys())
        story.check("nothing about a user", more, [])
        deprecation = answer.header("Deprecation")
        story.need("Deprecation", bool(deprecation), "a date", "nothing")
        story.right("the answer also says, in a header, that a URL is no place for a secret")

        answer = wire.send("POST", f"{site.auth_url}/token", form=parameters)
        stage.token(answer, _SCOPE)

        header = basic(PRINTER, site.secret(PRINTER))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
        stage.got["itself"] = stage.token(answer, _SCOPE)

        header = basic(PRINTER, site.secret(DESK))
        answer = wire.send("POST", f"{site.auth_url}/oauth/token", form=form, headers=header)
        stage.refused(answer, 401, "invalid_client")


def client_registration(stage: WalkContext) -> None:
    """Read and change a client's redirect_uri and description through the API (S22)."""
    site, story, wire = stage.site, stage.story, stage.wire
    elsewhere = f"{site.app_url}/printed"
    with story.chapter(
        "An app changes its own registration",
        "With the token of chapter 1, Notes Printer reads its own record, changes its redirect URI "
        "and its description, and uses the new URI at once. The old one is rejected.",
        "client_credentials S16 S22 S24",
    ):
        url, header = (
            f"{site.api_url}/v2/client",
            bearer(str(stage.received("itself")["access_token"])),
        )
        before = stage.read("client", stage.received("itself")["access_token"])
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

        request_url, state = stage.authorize_url(PRINTER, elsewhere, scope="notes:read")
        code = stage.code(stage.ada.authorize(request_url), elsewhere, state)
        stage.token(stage.exchange(code, elsewhere), "notes:read", uid=UID)

        request_url, _ = stage.authorize_url(PRINTER, site.callback, scope="notes:read")
        page = stage.ada.authorize(request_url)
        story.check("status", page.status, 400)
        story.check("sent to", page.location, "")
        story.right("Ada is not sent to the old address: she reads what is wrong instead")

        document = {"redirect_uri": site.callback, "description": before.text("description")}
        answer = wire.send("PUT", url, document=document, headers=header)
        story.check("status", answer.status, 200)
        story.check("redirect_uri", answer.text("redirect_uri"), site.callback)
        story.right("PUT gives every field, and everything is as it was")

        verify_app(site)
        story.right(
            "a new address ended the verified mark; the operator has verified the app again"
        )


def authorize_app(stage: WalkContext) -> None:
    """Run the whole grant as S10, S11 and S14 specify it, without PKCE."""
    site, story = stage.site, stage.story
    scope = "notes:read account:read"
    with story.chapter(
        "Authorization code grant",
        "Notes Printer redirects Ada's browser to the authorization server. She signs in there, "
        "reviews the requested permissions, and allows them. The redirect back to the app carries "
        "a code, which the app exchanges for tokens, server to server.",
        "authorization_code S5 S10 S11 S14 S17",
    ):
        url, state = stage.authorize_url(PRINTER, site.callback, scope=scope)
        code = stage.code(stage.ada.authorize(url), site.callback, state)

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


def public_client(stage: WalkContext) -> None:
    """Use PKCE (RFC 7636) as a public client."""
    site, story, wire = stage.site, stage.story, stage.wire
    # A native app listens on any free port (RFC 8252 section 7.3).
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
        url, state = stage.authorize_url(
            POCKET,
            callback,
            scope="notes:read",
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        code = stage.code(stage.ada.authorize(url), callback, state)
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


_VIEWER_URI = "http://127.0.0.1:8410/viewer"
_TEN_MINUTES = 600


def implicit(stage: WalkContext) -> None:
    """Use the implicit grant: the token is in the fragment (RFC 6749 section 4.2)."""
    story = stage.story
    with story.chapter(
        "Implicit grant",
        "Old Viewer runs in the browser and does not support PKCE. It gets an access token in the "
        "fragment of the redirect URI: short-lived, and without a refresh token. The grant is "
        "disabled for every app until an administrator enables it.",
        "implicit S6",
    ):
        url, state = stage.authorize_url(VIEWER, _VIEWER_URI, response_type="token")
        page = stage.ada.authorize(url)
        redirected = stage.sent_back(page, _VIEWER_URI, state)
        story.check("anything in the query", "?" in page.location, False)
        story.check("token_type", redirected.get("token_type"), "bearer")
        story.check("scope", redirected.get("scope"), "notes:read")
        story.check("uid", redirected.get("uid"), str(UID))
        lives = int(redirected.get("expires_in", "0"))
        story.need("expires_in", 0 < lives <= _TEN_MINUTES, "600 seconds at most", str(lives))
        story.check("a refresh token", "refresh_token" in redirected, False)
        story.right("all of it in the fragment, ten minutes at most, no refresh token")

        answer = stage.read("notes", redirected.get("access_token", ""))
        story.check("notes", len(stage.items(answer)), stage.notes)
        story.right("the token reads Ada's notes")


def example_app(stage: WalkContext) -> None:
    """Sign in to Notes Printer, and read its pages."""
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
        page = stage.ada.authorize(answer.header("Location"))
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


def openid_connect(stage: WalkContext) -> None:
    """Use discovery, verify an ID token, request userinfo, and sign out."""
    site, story, wire = stage.site, stage.story, stage.wire
    scope, nonce = "openid profile email", to_base64url(SYSTEM.random(9))
    with story.chapter(
        "Sign-in with OpenID Connect",
        "Reading Club needs no data, only Ada's identity. It reads the provider metadata, "
        "redirects her browser with a nonce, and gets a signed ID token for this app with that "
        "nonce. Then she signs out.",
        "authorization_code openid S5 S10 S17",
    ):
        answer = wire.send("GET", f"{site.auth_url}/.well-known/openid-configuration", brief=True)
        story.check("issuer", answer.text("issuer"), site.auth_url)
        endpoints = {name: answer.text(f"{name}_endpoint") for name in ("userinfo", "end_session")}
        keys = wire.send("GET", answer.text("jwks_uri"), brief=True)
        story.right("one document names every endpoint, and the keys that sign")

        url, state = stage.authorize_url(CLUB, CLUB_CALLBACK, scope=scope, nonce=nonce)
        code = stage.code(stage.ada.authorize(url), CLUB_CALLBACK, state)
        credentials = b64encode(f"{CLUB}:{site.secret(CLUB)}".encode()).decode()
        answer = wire.send(
            "POST",
            f"{site.auth_url}/oauth/token",
            form={
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": CLUB_CALLBACK,
            },
            headers={"Authorization": f"Basic {credentials}"},
        )
        got = stage.token(answer, scope, expires_in=HOUR, uid=UID)
        id_token = str(got.get("id_token", ""))
        claims = _claims(stage, id_token, keys.body)
        story.check("nonce", claims.get("nonce"), nonce)
        story.check("sub", claims.get("sub"), str(UID))
        story.right("the ID token is signed by one of those keys, for this app, with its nonce")

        answer = wire.send("GET", endpoints["userinfo"], headers=bearer(str(got["access_token"])))
        story.check("status", answer.status, 200)
        story.check("sub", answer.text("sub"), claims.get("sub"))
        story.check("name and email", (answer.text("name"), answer.text("email")), (NAME, EMAIL))
        story.right("userinfo tells the name and the address that Ada allowed, and nothing more")

        back = f"post_logout_redirect_uri={CLUB_BACK}&state=bye"
        page = stage.ada.open(f"{endpoints['end_session']}?id_token_hint={id_token}&{back}")
        page = stage.ada.submit(page, "sign-out")
        story.check("back at the app", page.location, f"{CLUB_BACK}?state=bye")
        url, _ = stage.authorize_url(CLUB, CLUB_CALLBACK, scope="openid", prompt="none")
        parameters = stage.ada.authorize(url).redirect_parameters
        story.check("asked without a page", parameters.get("error"), "login_required")
        story.right("after a button of ours she is back at the app, and signed in no more")


def _claims(stage: WalkContext, id_token: str, keys: str) -> Reply:
    try:
        return jwt.verify(
            id_token,
            KeySet.parse(keys.encode()),
            typ=("jwt",),
            algorithms=tuple(Algorithm),
            issuer=stage.site.auth_url,
            audience=(CLUB,),
            now=SYSTEM.now(),
        )
    except Refused as refused:
        stage.story.need("the ID token", False, "a good one", refused.refusal.check)
        raise


def password(stage: WalkContext) -> None:
    """Use the password grant (RFC 6749 section 4.3) for an access token by reference."""
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
