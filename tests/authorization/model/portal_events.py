"""What happens to teams, once each."""

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.teams import (
    FreshInvitation,
    Teams,
    give_owner,
)
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Prefix, fresh_secret


async def teams(it: Harness, secrets: set[str]) -> None:
    """Somebody is asked, comes, rises and goes; another invitation is taken back."""
    keyring, now = it.foundation.keyring, it.clock.now
    outbox = MailOutbox(MailSettings(), keyring, SYSTEM.random)
    keeper = Teams(keyring.fingerprint_key, outbox, it.foundation.issuer)
    fresh = [
        FreshInvitation(f"ti_{number}", fresh_secret(Prefix.LINK, SYSTEM.random))
        for number in range(2)
    ]

    def work(tx: Transaction) -> None:
        ada = tx.users.find(ADA)
        assert ada is not None
        assert give_owner(tx, "web", ADA, now)
        assert not give_owner(tx, "web", ADA, now)
        assert not give_owner(tx, "web", Uid(1), now)
        assert not give_owner(tx, "nothing", ADA, now)
        for invitation in fresh:
            assert (
                keeper.invite(tx, "web", ada, invitation.id, TeamRole.MEMBER, invitation, now)
                is None
            )
        assert keeper.withdraw(tx, "web", ADA, "ti_0", now)
        assert not keeper.withdraw(tx, "web", ADA, "ti_0", now)
        assert give_owner(tx, "spa", ADA, now)
        assert tx.members.give("spa", ADA, TeamRole.MEMBER)
        assert give_owner(tx, "spa", ADA, now)
        assert tx.members.give("spa", ADA, TeamRole.MEMBER)
        assert keeper.remove(tx, "spa", ADA, ADA, now) is None

    await it.write(work)
    secrets |= {invitation.token.reveal() for invitation in fresh}
