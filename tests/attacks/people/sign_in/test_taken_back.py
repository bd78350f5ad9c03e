"""Accounts that were taken over: whoever took one keeps no way in once its person has it back."""

from pathlib import Path

from tests.authorization.endpoints.mailed.post import (
    OTHER,
    browser,
    letters,
    link_of,
    only,
    proven,
    run,
    signed_in,
)
from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.account.email_change import BEFORE_THE_CHANGE
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.user import ApiToken, Authenticator, Passkey, Role
from valetkey.authorization.providers.model import Identity
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.secret import Fingerprint

NEW = "thief@evil.example"


async def passkey(it: Harness, name: str, at: Instant) -> None:
    """One more, added then."""
    handle = f"handle-{name}"
    key = Passkey(f"cr_{name}", ADA, name, handle, b"x", synced=False, counter=0, created_at=at)
    await it.write(lambda tx: tx.credentials.add_passkey(key))


async def connected(it: Harness, name: str) -> None:
    """One more account elsewhere, connected now."""
    now = it.clock.now
    one = Identity("https://elsewhere.example", name, ADA, name, now, now)
    await it.write(lambda tx: Identities.of(tx).link(one))


async def ways_in(it: Harness) -> tuple[list[str], list[str], bool, int, int]:
    """Passkeys, accounts elsewhere, whether there is an app, recovery codes, tokens that work."""

    def work(tx: Transaction) -> tuple[list[str], list[str], bool, int, int]:
        return (
            [credential.name for credential in tx.credentials.passkeys_of(ADA)],
            [identity.subject for identity in Identities.of(tx).of_user(ADA)],
            tx.credentials.authenticator_of(ADA) is not None,
            tx.credentials.recovery_codes_of(ADA).left,
            tx.api_tokens.count_live(ADA, it.clock.now),
        )

    return await it.read(work)


def test_mf_09_reverting_the_email_change_removes_what_was_added_since(
    database_url: str, tmp_path: Path
) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        await connected(it, "hers")
        long_ago = it.clock.now
        it.clock.forward(BEFORE_THE_CHANGE + 60)
        thief = await signed_in(it)
        await connected(it, "before the change")
        page = await thief.get("/account/email")
        assert (await thief.submit(page, "change", email=NEW)).status == 200
        (letter,) = [email for email in await letters(it) if email.to == NEW]
        there = browser(it)
        assert (await there.submit(await there.get(link_of(letter)), "confirm")).status == 200
        it.clock.forward(3_600)
        now = it.clock.now
        await passkey(it, "hers", long_ago)
        await passkey(it, "thief's", now)
        await connected(it, "thief's")
        app = Authenticator("cr_app", ADA, "sealed", now, None)
        code = ("cr_code", Fingerprint("print"))
        token = ApiToken("at_1", ADA, "theirs", frozenset({"read"}), now, later(now, days(99)))

        def work(tx: Transaction) -> None:
            tx.credentials.add_authenticator(app, 0)
            tx.credentials.replace_recovery_codes(ADA, [code], now)
            tx.user_directory.set_role(ADA, Role.ADMINISTRATOR, now)
            tx.api_tokens.issue(Fingerprint("token"), token)
            tx.account_removals.plan(ADA, later(now, days(7)), now)

        await it.write(work)
        here = browser(it)
        page = await here.get(link_of(await only(it, EmailKind.EMAIL_CHANGED)))
        page = await here.follow(await here.submit(page, "confirm"))
        assert await ways_in(it) == (["hers"], ["hers"], False, 0, 0)
        assert (await here.submit(page, "change", new=OTHER)).status == 200
        events = await it.events()
        assert await it.read(lambda tx: tx.account_removals.due_at(ADA)) is None
        gone = ("passkey.removed", "authenticator.removed", "identity.unlinked", "api_token.ended")
        for name in gone:
            assert name in events, name

    run(tmp_path, story, database_url)
