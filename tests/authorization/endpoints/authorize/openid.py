"""A client that may ask for everything, and what its answers say."""

from dataclasses import dataclass, replace
from html import unescape
from re import findall

from tests.authorization.visitor.browser import Answer, Browser, usual
from tests.authorization.visitor.world import ISSUER, WEB, World
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.key import Algorithm
from valetkey.kernel.scope import Scope

EVERYTHING = replace(
    WEB,
    id="oidc1",
    grant_types=frozenset({"authorization_code", "refresh_token", "implicit"}),
    scope=Scope.of("openid", "profile", "email", "phone", "offline_access", "notes:read"),
    default_scope=Scope.of("openid"),
)
NONCE = "n-0S6_WzA2Mj"


@dataclass(frozen=True)
class Said:
    """An answer of the authorization endpoint, whichever way it came."""

    way: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> dict[str, str]:
        assert len(dict(self.pairs)) == len(self.pairs)
        return dict(self.pairs)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.pairs}


def said(answer: Answer) -> Said:
    """What the client is told, in its query, its fragment or a form."""
    if answer.status == 200:
        assert 'action="https://app.example/cb"' in answer.body, answer.body
        inputs = findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', answer.body)
        return Said("form_post", tuple((name, unescape(value)) for name, value in inputs))
    assert answer.status == 303, answer.body
    if answer.told_in_fragment:
        assert not answer.told
        return Said("fragment", tuple(answer.told_in_fragment.items()))
    return Said("query", tuple(answer.told.items()))


def asking(**changed: str) -> dict[str, str]:
    """A request of that client, changed; "-" leaves one out."""
    good = {"client_id": "oidc1", "scope": "openid", "nonce": NONCE}
    return usual(**{**good, **changed})


async def ask(browser: Browser, **changed: str) -> Answer:
    """The first page or the answer."""
    return await browser.follow(await browser.get("/oauth/authorize", **asking(**changed)))


async def allowed(it: World, browser: Browser, **changed: str) -> Said:
    """The answer after signing in and allowing, wherever that is asked for."""
    page = await ask(browser, **changed)
    if 'id="sign-in"' in page.body:
        page = await browser.sign_in(page)
    if 'id="allow"' in page.body:
        page = await browser.allow(page)
    told = said(page)
    assert told.fields["iss"] == ISSUER
    return told


def claims_of(it: World, id_token: str, client_id: str = "oidc1") -> dict[str, object]:
    """What our ID token says, once its signature was found good."""
    return jwt.verify(
        id_token,
        it.minter.keys.published(it.clock.now),
        typ=("jwt",),
        algorithms=tuple(Algorithm),
        issuer=ISSUER,
        audience=client_id,
        now=it.clock.now,
    )
