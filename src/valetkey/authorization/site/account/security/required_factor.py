"""/account/security/second-factor: users who must add a second factor before anything else."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.factors import Factors
from valetkey.authorization.endpoints.authorize.pending import sealed_in
from valetkey.authorization.layout.addresses import (
    ADDRESSES,
    AUTHORIZE,
    HOME,
    REQUIRED_FACTOR,
    safe_return_path,
)
from valetkey.authorization.layout.contexts import CurrentUser
from valetkey.authorization.site.page import (
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    signed_in_to_add_factor,
)
from valetkey.authorization.site.presentation import shown_user
from valetkey.authorization.site.sign_in.flow import ReturnTarget
from valetkey.kernel.words import translatable
from valetkey.web.body import read_query
from valetkey.web.exchange import Request


class RequiredFactorPage(Struct, frozen=True):
    """Offer the second factors that a user can add. Context of required_factor.html."""

    template: ClassVar[str] = "account/security/required_factor.html"
    title: ClassVar[str] = translatable("Add a second factor")

    person: CurrentUser
    authenticator_url: str
    #: "" where the address of this server allows no passkeys.
    passkey_url: str


class RequiredFactor(Struct, frozen=True):
    """Ask a user for a second factor, and redirect one who has it to where they were going."""

    factors: Factors

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the page of this feature."""
        return (Page(REQUIRED_FACTOR, signed_in_to_add_factor, self.show),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Offer passkey and authenticator app; both keep the app or page to which the user goes."""
        target = target_of(request.request)
        if not request.signed_in.must_add_factor:
            return SeeOther(address_after(target) or HOME)
        passkey = target.address_of(ADDRESSES["new_passkey"])
        page = RequiredFactorPage(
            person=shown_user(request.signed_in),
            authenticator_url=target.address_of(ADDRESSES["new_authenticator"]),
            passkey_url=passkey if self.factors.passkeys.domain else "",
        )
        return Show(page)


def target_of(request: Request) -> ReturnTarget:
    """Return where a user goes after adding a factor, from the address of the request.

    The authorization endpoint checks the sealed request of an app.
    """
    sealed = sealed_in(request)
    to = "" if sealed else safe_return_path(read_query(request.query).get("to"))
    return ReturnTarget(sealed, to)


def address_after(target: ReturnTarget) -> str:
    """Return the address of the app's request or page; "" for none."""
    return target.address_of(AUTHORIZE) if target.sealed else target.to


def back_of(request: SignedInRequest) -> str:
    """Return the page that leads to one that adds a factor; "" for the overview of security."""
    if not request.signed_in.must_add_factor:
        return ""
    return target_of(request.request).address_of(REQUIRED_FACTOR)
