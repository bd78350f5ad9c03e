"""Apps with a team: alice owns web1, bob is a member of it, and mallory is a stranger."""

from tests.authorization.endpoints.account.people import signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace

MALLORY = replace(BOB, uid=Uid(1003), username="mallory", email="mallory@example.com")
WEB1 = "/developer/apps/web1"


async def team(it: Harness) -> None:
    """Alice and bob look after web1; nat1 is mallory's, who is registered here."""

    def work(tx: Transaction) -> None:
        now = it.clock.now
        tx.users.register(MALLORY)
        hash_ = tx.users.password_hash(ALICE.uid) or ""
        tx.users.set_password_hash(MALLORY.uid, "cr_1003", hash_, now)
        tx.members.add(Membership("web1", ALICE.uid, TeamRole.OWNER, now))
        tx.members.add(Membership("web1", BOB.uid, TeamRole.MEMBER, now))
        tx.members.add(Membership("nat1", MALLORY.uid, TeamRole.OWNER, now))

    await it.store.write(work)


async def are_for_the_team_alone(it: Harness, *addresses: str) -> Browser:
    """Whether these pages open for owner and member, and for nobody else; the owner's browser.

    Strangers read the same words as about an app that there is not.
    """
    owner, member = await signed_in(it), await signed_in(it, "bob")
    stranger = await signed_in(it, "mallory")
    for address in addresses:
        for browser in (owner, member):
            answer = await browser.get(address)
            assert answer.status == 200, (address, answer.body)
            assert "no-store" in answer.header("cache-control")
        foreign = await stranger.get(address)
        unknown = await stranger.get(address.replace("/web1/", "/web9/"))
        assert (foreign.status, unknown.status) == (404, 404)
        assert _words(foreign) == _words(unknown)
        assert (await it.browser().get(address)).location.startswith("/oauth/sign-in")
    return owner


def _words(answer: Answer) -> str:
    return answer.body.partition("<main")[2].partition("VK-")[0]
