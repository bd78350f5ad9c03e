"""Everything that happens to second factors, once."""

from tests.support.harness import ADA, Harness
from valetkey.authorization.actions.account.factors import (
    FreshCodes,
    add_authenticator,
    add_passkey,
    remove_authenticator,
    remove_passkey,
    remove_password,
    rename_passkey,
    reset_factors,
)
from valetkey.authorization.authentication.factors import (
    Factors,
    FreshDevice,
    SubmittedFactor,
    VerifiedPasskey,
    forget_device,
    recognise,
    remember_device,
)
from valetkey.authorization.authentication.passkey import NewPasskey, VerifiedAssertion
from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Authenticator
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import FactorSettings
from valetkey.kernel.moment import Instant, days, minutes
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Fingerprint


def _once(name: str, now: Instant) -> Voucher:
    return Voucher(VoucherKind.CHALLENGE, Fingerprint(name), "", "", "", now + 600, now)  # type: ignore[arg-type]


async def second_factors(it: Harness, secrets: set[str]) -> None:
    """Added, used, named, removed; remembered, copied, forgotten."""
    now, keyring = it.clock.now, it.foundation.keyring
    key, codes = keyring.fingerprint_key, FreshCodes.draw(SYSTEM.random)
    factors = Factors("https://auth.example", lambda: "X", keyring, SYSTEM.random, FactorSettings())
    app = factors.sealed(Authenticator("cr_app", ADA, "", now), b"k" * 20)
    devices = [FreshDevice.draw(SYSTEM.random, key) for _ in range(4)]

    def work(tx: Transaction) -> None:
        ada = tx.users.find(ADA)
        assert ada is not None
        assert add_authenticator(tx, ada, app, 0, codes, key, now) == codes.codes
        for name in ("one", "two"):
            new = NewPasskey(name, b"", synced=False, counter=5, once=_once(name, now))
            assert add_passkey(tx, ada, name, new, f"cr_{name}", codes, key, now) == ()
        assert rename_passkey(tx, ada, "cr_one", "Laptop", now)
        stored = tx.users.password_hash(ADA)
        assert stored is not None
        passkey = tx.credentials.find_passkey("two")
        assert passkey is not None
        proved = VerifiedAssertion((), 3, fell=True, once=_once("three", now))
        factors.verify_factor(
            tx,
            ada,
            SubmittedFactor(credential="x"),
            VerifiedPasskey(passkey, proved),
            "",
            "page",
            now,
        )
        factors.verify_factor(
            tx, ada, SubmittedFactor(recovery=codes.codes[0]), None, "", "page", now
        )
        assert remove_passkey(tx, ada, "cr_one", now)
        assert remove_authenticator(tx, ada, now)
        assert remove_password(tx, ada, now)
        tx.users.set_password_hash(ADA, "cr_password", stored, now)
        kept = remember_device(tx, devices[0], ADA, "", now, days(30))
        later = Instant(now + minutes(5))
        assert recognise(tx, kept.cookie, devices[1], ADA, now) is not None
        assert recognise(tx, kept.cookie, devices[2], ADA, later) is None
        remember_device(tx, devices[3], ADA, "", now, days(30))
        assert forget_device(tx, ADA, devices[3].id, now)
        assert reset_factors(tx, ada, now)
        secrets.update(codes.codes, (device.cookie(device.id) for device in devices), {kept.cookie})

    await it.write(work)
