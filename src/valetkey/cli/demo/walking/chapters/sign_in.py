"""The chapter about OpenID Connect: an app that wants to know who it is, and nothing else."""

from base64 import b64encode

from valetkey.cli.demo.site import CLUB, CLUB_BACK, CLUB_CALLBACK, EMAIL, NAME, UID
from valetkey.cli.demo.walking.stage import HOUR, WalkContext
from valetkey.cli.demo.wire import Reply, bearer
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.jose.key import KeySet
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url


def with_an_account(stage: WalkContext) -> None:
    """Discovery, an ID token that is checked, userinfo, and signing out."""
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

        asked, state = stage.authorize_url(CLUB, CLUB_CALLBACK, scope=scope, nonce=nonce)
        code = stage.code(stage.ada.ask(asked), CLUB_CALLBACK, state)
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
        story.check("name and e-mail", (answer.text("name"), answer.text("email")), (NAME, EMAIL))
        story.right("userinfo tells the name and the address that Ada allowed, and nothing more")

        back = f"post_logout_redirect_uri={CLUB_BACK}&state=bye"
        page = stage.ada.open(f"{endpoints['end_session']}?id_token_hint={id_token}&{back}")
        page = stage.ada.submit(page, "sign-out")
        story.check("back at the app", page.location, f"{CLUB_BACK}?state=bye")
        asked, _ = stage.authorize_url(CLUB, CLUB_CALLBACK, scope="openid", prompt="none")
        told = stage.ada.ask(asked).told
        story.check("asked without a page", told.get("error"), "login_required")
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
