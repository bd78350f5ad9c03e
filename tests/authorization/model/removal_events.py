"""What happens to an account on its way out, each once."""

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.authentication.session import NewSession, start_session
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.operations.operation import call_of
from valetkey.authorization.operations.user_access import SECURE, WAIVE_FACTOR
from valetkey.authorization.operations.user_records import AccountSecured, PasswordLink
from valetkey.authorization.providers.rules.identities import ClaimedIdentity, connect, disconnect
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM

SECURED = Uid(3002)


async def ends(it: Harness) -> None:
    """Users connect accounts elsewhere, take their data and leave; an account is secured."""
    removal, now = it.foundation.removal, it.clock.now
    key, sessions = it.foundation.keyring.fingerprint_key, it.settings.sessions

    def work(tx: Transaction) -> None:
        ada = tx.users.find(ADA)
        assert ada is not None
        taken_over: User = replace(ada, uid=SECURED, username="taken", email="taken@example.com")
        assert tx.users.register(taken_over)
        leaving: User = replace(ada, uid=Uid(3001), username="going", email="going@example.com")
        assert tx.users.register(leaving)
        one, other = (ClaimedIdentity("https://id.example", subject) for subject in "12")
        assert connect(tx, leaving, one, now)
        assert connect(tx, leaving, other, now)
        assert disconnect(tx, leaving, one.issuer, one.subject, now, {one.issuer})
        assert export(
            tx, leaving, ExportOrigin("Valetkey", it.foundation.issuer, "https://api"), now
        )
        assert removal.plan(tx, leaving, now) is not None
        new = NewSession.fresh("", SYSTEM.random)
        start_session(tx, new, leaving, key, sessions, now, methods=("pwd",))
        assert removal.remove(tx, leaving, now)

    await it.write(work)
    body = AccountSecured(PasswordLink.SHOW)
    call = call_of(it.foundation.services, SECURE, CommandLine(), now, {"uid": str(SECURED)}, body)
    await SECURE.run(call)
    call = call_of(it.foundation.services, WAIVE_FACTOR, CommandLine(), now, {"uid": str(SECURED)})
    await WAIVE_FACTOR.run(call)
