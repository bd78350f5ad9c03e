"""Sign-in through upstream providers, if any are configured."""

from valetkey.authorization.actions.account.identities import Newcomers
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.authentication.federation.registry import Providers
from valetkey.authorization.authentication.federation.trip import Trips
from valetkey.authorization.site.federation.federation import (
    Federation,
)
from valetkey.authorization.site.site import Site
from valetkey.config.sections.accounts import SignUp


def make_federation(foundation: Foundation, site: Site, elsewhere: Providers) -> Federation:
    """Build what the federation pages share."""
    keyring, random = foundation.keyring, foundation.runtime.random
    return Federation(
        site,
        elsewhere,
        Trips(keyring.fingerprint_key, keyring.sealer, random),
        Newcomers(foundation.accounts(), foundation.settings.brand.name),
        sign_up=foundation.settings.accounts.sign_up is SignUp.OPEN,
    )
