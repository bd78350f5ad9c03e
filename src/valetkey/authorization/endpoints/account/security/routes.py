"""The routes of security: which address is whose."""

from valetkey.authorization.deeds.account.password_change import PasswordChange
from valetkey.authorization.endpoints.account.security.addresses import (
    DEVICES,
    DOWNLOAD,
    NEW_AUTHENTICATOR,
    NEW_PASSKEY,
    PASSKEY,
    PASSWORD,
    RECOVERY_CODES,
    REMOVE_AUTHENTICATOR,
    REMOVE_PASSKEY,
    REMOVE_PASSWORD,
    SECURITY,
)
from valetkey.authorization.endpoints.account.security.authenticator import AuthenticatorEndpoint
from valetkey.authorization.endpoints.account.security.devices import DevicesEndpoint
from valetkey.authorization.endpoints.account.security.overview import SecurityEndpoint
from valetkey.authorization.endpoints.account.security.passkeys import PasskeysEndpoint
from valetkey.authorization.endpoints.account.security.password import PasswordEndpoint
from valetkey.authorization.endpoints.account.security.recovery import RecoveryEndpoint
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


def routes(site: Site, change: PasswordChange, refuse: Refuse) -> tuple[Route, ...]:
    """Every page on which people secure their account."""
    overview, password = SecurityEndpoint(site), PasswordEndpoint(site, change)
    passkeys, authenticator = PasskeysEndpoint(site), AuthenticatorEndpoint(site)
    recovery, devices = RecoveryEndpoint(site), DevicesEndpoint(site)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    def send(path: str, post: Endpoint) -> Route:
        return Route(path, {"POST": post}, refuse, Body.FORM)

    return (
        Route(SECURITY, {"GET": overview.get, "HEAD": overview.get}, refuse),
        form(PASSWORD, password.get, password.post),
        form(REMOVE_PASSWORD, password.ask_to_remove, password.remove),
        form(NEW_PASSKEY, passkeys.new, passkeys.add),
        form(PASSKEY, passkeys.one, passkeys.rename),
        form(REMOVE_PASSKEY, passkeys.ask_to_remove, passkeys.remove),
        form(NEW_AUTHENTICATOR, authenticator.new, authenticator.add),
        form(REMOVE_AUTHENTICATOR, authenticator.ask_to_remove, authenticator.remove),
        form(RECOVERY_CODES, recovery.get, recovery.post),
        send(DOWNLOAD, recovery.download),
        send(DEVICES, devices.post),
    )
