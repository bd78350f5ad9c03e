"""A client that may ask for everything, and what its answers say."""

import json
from dataclasses import dataclass
from html import unescape
from re import findall

from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser, usual
from tests.support.visitors import ALICE, ISSUER, WEB
from valetkey.authorization.model.grant import CodePayload, Consent, VoucherKind
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
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


async def allowed(it: Harness, browser: Browser, **changed: str) -> Said:
    """The answer after signing in and allowing, wherever that is asked for."""
    page = await ask(browser, **changed)
    if 'id="sign-in"' in page.body:
        page = await browser.sign_in(page)
    if 'id="allow"' in page.body:
        page = await browser.allow(page)
    response = said(page)
    assert response.fields["iss"] == ISSUER
    return response


def claims_of(it: Harness, id_token: str, client_id: str = "oidc1") -> dict[str, object]:
    """What our ID token says, once its signature was found good."""
    return jwt.verify(
        id_token,
        it.authorize.minter.keys.published(it.clock.now),
        typ=("jwt",),
        algorithms=tuple(Algorithm),
        issuer=ISSUER,
        audience=client_id,
        now=it.clock.now,
    )


async def begin(it: Harness) -> Browser:
    """A browser in which alice signed in and allowed everything that is asked for here."""
    await it.register(EVERYTHING)
    browser = it.browser()
    await allowed(it, browser, nonce="first")
    return browser


async def id_token(it: Harness, browser: Browser, **changed: str) -> str:
    response = await allowed(it, browser, response_type="id_token", **changed)
    return response.fields["id_token"]


async def payload(it: Harness, code: str) -> CodePayload:
    mark = it.server.keyring.fingerprint_key.fingerprint("code", code)
    voucher = await it.store.read(lambda tx: tx.vouchers.find(VoucherKind.CODE, mark))
    assert voucher is not None
    return CodePayload.decode(voucher.payload)


async def consent(it: Harness) -> Consent:
    stored_consent = await it.store.read(lambda tx: tx.consents.find(ALICE.uid, "oidc1"))
    assert stored_consent is not None
    return stored_consent


def asks_who(answer: Answer) -> bool:
    return 'id="sign-in"' in answer.body


def asks_whether(answer: Answer) -> bool:
    return 'id="allow"' in answer.body


def wish(id_token: object = None, userinfo: object = None) -> str:
    members = {"id_token": id_token, "userinfo": userinfo}
    return json.dumps({name: claims for name, claims in members.items() if claims})
