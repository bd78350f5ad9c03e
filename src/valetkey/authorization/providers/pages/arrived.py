"""/oauth/sign-in/arrived: an upstream identity that is not linked to an account."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from valetkey.authorization.actions.account.identities import AlreadyLinked
from valetkey.authorization.actions.users import Faults
from valetkey.authorization.authentication.federation.provider import FEDERATED
from valetkey.authorization.authentication.federation.upstream_sign_in import UnlinkedIdentity
from valetkey.authorization.endpoints.authorize.pending import sealed_in
from valetkey.authorization.layout.addresses import SIGN_IN, safe_return_path
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.site.federation.federation import (
    ARRIVED,
    CONNECTIONS,
    Federation,
    with_place,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    Show,
    VisitorRequest,
    visitor_request,
)
from valetkey.authorization.site.sign_in.flow import SignInComplete
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Interrupt, see_other


class UnlinkedIdentityPage(Struct, frozen=True):
    """Offer a new account, or to link an existing one.

    Posts `csrf`, `username` and `name`.
    """

    template: ClassVar[str] = "federation/arrived.html"
    title: ClassVar[str] = translatable("Welcome")

    provider: str
    #: How they are known over there; shown, never looked for.
    shown: str
    #: The URL of the form; "" if no account can be created.
    action: str
    #: The sign-in page, for the owner of an account.
    sign_in: str
    username: str = ""
    name: str = ""
    email: str = ""
    #: Whether an account here has the same address.
    taken: bool = False
    faults: Mapping[str, str] = field(default_factory=dict[str, str])


PURPOSE = "arrived"
"""The purpose of the form's CSRF token."""

_TEXTS = ("username", "name")
_BAD_REQUEST = 400
_CONFLICT = 409
_SAID: Mapping[str, str] = {
    "username": translatable(
        "Choose another username: letters and digits without spaces, and not already taken."
    ),
    "name": translatable("The name is too long, or contains invisible characters."),
}


class UnlinkedIdentityRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a visitor whom a provider authenticated, and who has no account here yet."""

    unlinked: UnlinkedIdentity


class UpstreamSignUp(Struct, frozen=True):
    """Offer to create an account if the provider verified an email address, or to link one."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        return (Page(ARRIVED, self._arrived, self.show, Act(self.join, opaque=_TEXTS)),)

    async def show(self, request: UnlinkedIdentityRequest) -> Outcome:
        """Offer to create an account, or to link the identity to an existing one."""
        claimed = request.unlinked.claimed
        return await self._page(request, claimed.username, claimed.name)

    async def join(self, request: UnlinkedIdentityRequest) -> Outcome:
        """Create the account, link the identity and sign in, in one transaction."""
        flow, newcomers, unlinked = (
            self.federation.flow,
            self.federation.newcomers,
            request.unlinked,
        )
        username, name = (request.form.get(each) or "" for each in _TEXTS)
        if not await self._may_join(unlinked):
            return await self._page(request, username, name, status=_CONFLICT)
        came, now = request.request, request.now
        target = await flow.target_of(came)
        fresh, begun = flow.fresh(came), list[SignInComplete]()

        def create_account(tx: Transaction) -> User | Faults | None:
            claimed = self.federation.pending_sign_ins.with_claims(tx, unlinked, now)
            made = newcomers.register(tx, claimed, username, name, now)
            if isinstance(made, User):
                begun.append(
                    flow.enter(tx, came, fresh, made, (FEDERATED,), auth_time=claimed.auth_time)
                )
            return made

        try:
            made = await flow.server.store.write(create_account, done_by=USUAL_ACTOR)
        except AlreadyLinked:
            made = None
        if isinstance(made, User):
            onward = flow.continue_to(came, target, fresh, begun[-1])
            return replace(onward, headers=(*onward.headers, self.federation.deleted_cookie()))
        faults = {} if made is None else {each.field: _SAID.get(each.field, "") for each in made}
        status = _CONFLICT if made is None else _BAD_REQUEST
        return await self._page(request, username, name, faults=faults, status=status)

    async def _arrived(self, visit: PageVisit) -> UnlinkedIdentityRequest:
        """Require that a provider authenticated the visitor. Raises Interrupt otherwise."""
        it = visitor_request(visit, visit.form(), PURPOSE)
        unlinked = self.federation.unlinked(it.request)
        if unlinked is None:
            to = safe_return_path(it.query.get("to"))
            raise Interrupt(see_other(with_place(SIGN_IN, sealed_in(it.request), to)))
        return UnlinkedIdentityRequest(
            it.request, it.browser, it.csrf, it.headers, it.form, unlinked=unlinked
        )

    async def _may_join(self, unlinked: UnlinkedIdentity) -> bool:
        """Return whether an account can be created: sign-up is allowed and the address is free."""
        provider = self.federation.providers.find(unlinked.provider)
        email = unlinked.claimed.proven_email
        if not self.federation.sign_up or provider is None or not provider.settings.sign_up:
            return False
        return bool(email) and not await self._is_taken(unlinked)

    async def _is_taken(self, unlinked: UnlinkedIdentity) -> bool:
        # For an unverified address, this would tell strangers which addresses have accounts.
        email = unlinked.claimed.proven_email
        if not email:
            return False
        return await self.federation.server.store.read(
            lambda tx: tx.users.find_by_name(email) is not None
        )

    async def _page(
        self,
        request: UnlinkedIdentityRequest,
        username: str,
        name: str,
        *,
        faults: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> Show:
        unlinked, claimed = request.unlinked, request.unlinked.claimed
        provider = self.federation.providers.find(unlinked.provider)
        sealed, to = sealed_in(request.request), safe_return_path(request.query.get("to"))
        may_join = await self._may_join(unlinked)
        page = UnlinkedIdentityPage(
            provider=unlinked.provider if provider is None else provider.settings.name,
            shown=claimed.email or claimed.username or claimed.name or claimed.subject,
            action=with_place(ARRIVED, sealed, to) if may_join else "",
            sign_in=f"{SIGN_IN}?to={CONNECTIONS}",
            username=username,
            name=name,
            email=claimed.proven_email,
            taken=await self._is_taken(unlinked),
            faults=faults or {},
        )
        return Show(page, status)
