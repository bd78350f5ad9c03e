"""People who look after their account, and what they allowed before."""

import re

from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, API
from valetkey.authorization.model.grant import Consent, Grant
from valetkey.authorization.model.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import fresh_id

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


async def signed_in(
    it: Harness, name: str = "alice", agent: str = FIREFOX, address: str = "192.0.2.7"
) -> Browser:
    """A browser in which they are signed in, at this IP address."""
    browser = it.browser()
    browser.address = address
    page = await browser.get("/oauth/sign-in")
    action, fields = page.form("sign-in")
    word = "correct horse battery staple"
    form = {**fields, "username": [name], "password": [word]}
    answer = await browser.post(action, form, {"user-agent": agent})
    assert answer.location == "/", answer.body
    return browser


async def grant_of(
    it: Harness,
    client_id: str,
    scope: Scope,
    *,
    user: User = ALICE,
    session_id: str = "",
    consent: bool = True,
    lasts: int = days(180),
) -> str:
    """The id of what they just allowed that client."""
    now = it.clock.now
    grant = Grant(
        id=fresh_id("gr", SYSTEM.random),
        client_id=client_id,
        uid=user.uid,
        session_id=session_id,
        scope=scope,
        audience=API,
        grant_type="authorization_code",
        auth_time=now,
        created_at=now,
        last_used_at=now,
        expires_at=Instant(now + lasts),
    )

    def work(tx: Transaction) -> None:
        assert tx.grants.issue(grant)
        if consent:
            tx.consents.save(Consent(user.uid, client_id, scope, "", now))

    await it.store.write(work)
    return grant.id


async def live(it: Harness, user: User) -> list[str]:
    """The ids of their grants that have not ended."""
    now = it.clock.now
    grants = await it.store.read(lambda tx: tx.grants.live_of_user(user.uid, now, 9))
    return [grant.id for grant in grants]


def knows(page: Answer, words: str) -> bool:
    """Whether the page says this, however its lines break."""
    return words in re.sub(r"\s+", " ", page.body)
