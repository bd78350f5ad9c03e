"""Every page of the account area."""

from valetkey.authorization.actions.account.password_change import PasswordChange
from valetkey.authorization.actions.account.removal import Removal
from valetkey.authorization.actions.logout import SignOut
from valetkey.authorization.site.account.activity import Activity
from valetkey.authorization.site.account.apps.app import App
from valetkey.authorization.site.account.apps.apps import Apps
from valetkey.authorization.site.account.data import Data
from valetkey.authorization.site.account.profile import Profile
from valetkey.authorization.site.account.removal import RemoveAccount
from valetkey.authorization.site.account.security.authenticator import AuthenticatorApp
from valetkey.authorization.site.account.security.confirm import Confirm
from valetkey.authorization.site.account.security.overview import Security
from valetkey.authorization.site.account.security.passkeys import Passkeys
from valetkey.authorization.site.account.security.password import Password
from valetkey.authorization.site.account.security.recovery_codes import RecoveryCodes
from valetkey.authorization.site.account.sessions import Sessions
from valetkey.authorization.site.page import AnyPage
from valetkey.authorization.site.site import Site


def account_pages(
    site: Site, sign_out: SignOut, change: PasswordChange, removal: Removal
) -> tuple[AnyPage, ...]:
    """The pages, in the order of the navigation."""
    return (
        *Profile(site).pages(),
        *Apps(site).pages(),
        *App(site).pages(),
        *Sessions(site, sign_out).pages(),
        *Security(site).pages(),
        *Password(site, change).pages(),
        *Passkeys(site).pages(),
        *AuthenticatorApp(site).pages(),
        *RecoveryCodes(site).pages(),
        *Confirm(site, change.passwords).pages(),
        *Activity(site).pages(),
        *Data(site).pages(),
        *RemoveAccount(site, removal).pages(),
    )
