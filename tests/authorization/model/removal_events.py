"""What happens to an account on its way out, each once."""

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.account.export import Origin, export
from valetkey.authorization.actions.account.identities import connect, disconnect
from valetkey.authorization.authentication.federation.provider import ClaimedIdentity
from valetkey.authorization.authentication.session import NewSession, start_session
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM


async def ends(it: Harness) -> None:
    """Somebody connects accounts elsewhere, takes their data, leaves, stays, and leaves."""
    removal, now = it.foundation.removal, it.clock.now
    key, sessions = it.foundation.keyring.fingerprint_key, it.settings.sessions

    def work(tx: Transaction) -> None:
        ada = tx.users.find(ADA)
        assert ada is not None
        leaving: User = replace(ada, uid=Uid(3001), username="going", email="going@example.com")
        assert tx.users.register(leaving)
        one, other = (ClaimedIdentity("https://id.example", subject) for subject in "12")
        assert connect(tx, leaving, one, now)
        assert connect(tx, leaving, other, now)
        assert disconnect(tx, leaving, one.issuer, one.subject, now, {one.issuer})
        assert export(tx, leaving, Origin("Valetkey", it.foundation.issuer, "https://api"), now)
        assert removal.plan(tx, leaving, now) is not None
        new = NewSession.fresh("", SYSTEM.random)
        start_session(tx, new, leaving, key, sessions, now, methods=("pwd",))
        assert removal.remove(tx, leaving, now)

    await it.write(work)
