"""One example of every page of security, and those that are hardest to lay out."""

import json
from collections.abc import Mapping

from tests.authorization.pages.examples.account import ago
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser, qr_code
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.providers.pages.account import LinkedAccountsSection
from valetkey.authorization.site.account.security.authenticator import (
    NewAuthenticatorPage,
    RecoveryCodesPage,
    RecoveryPage,
)
from valetkey.authorization.site.account.security.confirm import (
    ConfirmFactorPage,
    Removed,
    RemovePage,
    RequiredFactorPage,
)
from valetkey.authorization.site.account.security.overview import (
    DeviceLine,
    DoneMessage,
    PasskeyLine,
    SecurityPage,
)
from valetkey.authorization.site.account.security.passkeys import (
    NewPasskeyPage,
    PasskeyPage,
)
from valetkey.authorization.site.sign_in.second_factor import SecondFactorPage
from valetkey.authorization.site.sign_in.sign_in import SignInPage
from valetkey.kernel.replace import replace

_SIGN_IN, _SECOND, _CONFIRM = "/oauth/sign-in", "/oauth/second-factor", "/account/confirm"
_SECURITY = "/account/security"
_KEY = "JBSW Y3DP EHPK 3PXP JBSW Y3DP EHPK 3PXP"
_OPTIONS = json.dumps({"challenge": "x" * 200, "rpId": "auth.example"})
_PHONE = PasskeyLine("cr_1", "Ada’s phone", True, ago(4_000_000), ago(7_300))
_STICK = PasskeyLine("cr_2", "Blue security key", False, ago(90_000))
_HERE = DeviceLine("rd_1", "Firefox", "Linux", ago(50), here=True)
_ELSEWHERE = DeviceLine("rd_2", "Safari", "iPhone", ago(700_000))
_HOSTILE = '"><script>alert(1)</script>{{ 7*7 }}'


def security_examples(person: CurrentUser, app: AskingApp) -> Mapping[str, PageContext]:
    """The pages on which this person secures the account, or shows that it is theirs."""
    bare = SecurityPage(f"{_SECURITY}/devices", ago(4_000_000))
    full = replace(
        bare,
        passkeys=(_PHONE, _STICK),
        authenticator_since=ago(90_000),
        recovery_left=9,
        devices=(_HERE, _ELSEWHERE),
        sections=(LinkedAccountsSection(2),),
    )
    second = SecondFactorPage(_SECOND, _SIGN_IN, "ada", has_code=True, has_recovery=True, days=30)
    confirm = ConfirmFactorPage(_CONFIRM, person, "ada", by_password=False)
    both = replace(confirm, passkey=_OPTIONS, has_code=True, has_recovery=True)
    new_key = NewPasskeyPage(f"{_SECURITY}/passkeys/new", _OPTIONS, "Linux")
    key = PasskeyPage(
        f"{_SECURITY}/passkeys/cr_1",
        _PHONE.name,
        _PHONE.name,
        _PHONE.since,
        _PHONE.last_used,
        synced=True,
        remove=f"{_SECURITY}/passkeys/cr_1/remove",
    )
    picture, size = qr_code("otpauth://totp/Valetkey:ada?secret=JBSWY3DPEHPK3PXP&issuer=Valetkey")
    setup = f"{_SECURITY}/authenticator/new"
    new_app = NewAuthenticatorPage(setup, "v1.sealed", picture, size, _KEY)
    codes = tuple(f"ABCD-EFGH-JK{number}" for number in ("2M", "3M", "4M", "5M", "6M"))
    new_codes = RecoveryCodesPage(f"{_SECURITY}/recovery-codes/download", "v1.sealed", codes * 2)
    required = RequiredFactorPage(person, setup, f"{_SECURITY}/passkeys/new")
    remove = RemovePage(f"{_SECURITY}/x/remove", Removed.PASSKEY, name=_PHONE.name)
    return {
        "security_bare": bare,
        "security_no_passkeys": replace(bare, can_have_passkeys=False),
        "security_full": full,
        "security_few_codes": replace(full, recovery_left=1, devices=(_HERE,)),
        "security_no_codes": replace(full, recovery_left=0, passkeys=(), devices=()),
        "security_no_password": replace(full, password_since=None, authenticator_since=None),
        "security_odd": replace(full, passkeys=(replace(_PHONE, name=_HOSTILE * 2),)),
        **{f"security_done_{done}": replace(full, done=done) for done in DoneMessage},
        "second_factor": second,
        "second_factor_app": replace(second, app=app, passkey=_OPTIONS),
        "second_factor_passkey": replace(second, passkey=_OPTIONS, has_code=False),
        "second_factor_wrong": replace(second, wrong="code"),
        "second_factor_wait": replace(second, wrong="code", wait=179),
        "second_factor_wrong_passkey": replace(second, passkey=_OPTIONS, wrong="passkey"),
        "second_factor_wrong_recovery": replace(second, wrong="recovery"),
        "second_factor_wait_recovery": replace(second, wrong="recovery", wait=179),
        "second_factor_lost": replace(second, has_code=False, has_recovery=True),
        "sign_in_passkey": SignInPage(_SIGN_IN, app, passkey=_OPTIONS),
        "sign_in_passkey_failed": SignInPage(_SIGN_IN, passkey=_OPTIONS, passkey_failed=True),
        "confirm_factors": both,
        "confirm_code": replace(both, passkey=""),
        "confirm_passkey": replace(both, has_code=False, wrong="passkey"),
        "confirm_wrong_code": replace(both, passkey="", wrong="code"),
        "confirm_wait_code": replace(both, passkey="", wrong="code", wait=700),
        "confirm_wrong_recovery": replace(both, wrong="recovery"),
        "new_passkey": new_key,
        "new_passkey_failed": replace(new_key, failed=True),
        "new_passkey_no_name": replace(new_key, name="", wrong_name=True),
        "passkey": key,
        "passkey_new": replace(key, last_used=None, synced=False, wrong_name=True, name=""),
        "new_authenticator": new_app,
        "new_authenticator_wrong": replace(new_app, wrong=True),
        "required_factor": required,
        "required_factor_no_passkeys": replace(required, passkey_url=""),
        "new_passkey_required": replace(new_key, back="/account/security/second-factor"),
        "new_authenticator_required": replace(new_app, back="/account/security/second-factor"),
        "recovery_codes_required": replace(new_codes, continue_url="/account/sessions"),
        "recovery": RecoveryPage(f"{_SECURITY}/recovery-codes", 7, ago(90_000)),
        "recovery_none": RecoveryPage(f"{_SECURITY}/recovery-codes", 0),
        "recovery_codes": new_codes,
        "remove_passkey": remove,
        "remove_passkey_last": replace(remove, last=True),
        "remove_passkey_only": replace(remove, impossible=True),
        "remove_authenticator": replace(remove, what=Removed.AUTHENTICATOR, last=True),
        "remove_password": replace(remove, what=Removed.PASSWORD),
        "remove_password_only": replace(remove, what=Removed.PASSWORD, impossible=True),
    }
