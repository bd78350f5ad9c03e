"""/oauth/consent: ask the user about the requested access, or switch to another account."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.endpoints.authorize.checks import open_pending
from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    Server,
    address,
    decides_again,
    sealed_in,
)
from valetkey.authorization.layout.addresses import (
    APPS,
    AUTHORIZE,
    CONSENT,
    SIGN_IN,
    SWITCH_ACCOUNT,
)
from valetkey.authorization.layout.contexts import AskingApp, CurrentUser
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.interaction import Ask, chosen_places, digest
from valetkey.authorization.protocol.resource import ScopeText, described
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    Requirement,
    SeeOther,
    Show,
    VisitorRequest,
    visitor_request,
)
from valetkey.authorization.site.presentation import asking_app, shown_user
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.web.exchange import Interrupt, see_other

CLAIM_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "name": "know your full name",
        "family_name": "know your family name",
        "given_name": "know your given name",
        "middle_name": "know your middle name",
        "nickname": "know your nickname",
        "preferred_username": "know your username",
        "profile": "know the address of your profile page",
        "picture": "know your picture",
        "website": "know your website",
        "gender": "know your gender",
        "birthdate": "know your date of birth",
        "zoneinfo": "know your time zone",
        "locale": "know your language",
        "updated_at": "know when your profile was last changed",
        "email": "know your email address",
        "email_verified": "know whether your email address is verified",
        "address": "know your postal address",
        "phone_number": "know your phone number",
        "phone_number_verified": "know whether your phone number is verified",
        "groups": "know which groups you are in",
    }
)
"""Descriptions of single claims that an app requests: each continues "This app wants to …"."""


class ChangedPart(StrEnum):
    """A part of its registration that an app changed since the user's last consent."""

    NAME = "name"
    LOGO = "logo"
    TERMS = "terms"  # or the privacy policy
    PLACE = "place"  # the redirect URI


class ChangeShown(Struct, frozen=True):
    """One change of the app; `before` is the previous value, empty if it is not shown."""

    part: ChangedPart
    before: str = ""


class ScopeLine(Struct, frozen=True):
    """One scope with its description.

    `sentence` continues "Notes Printer wants to …": a verb first, lower case, no full stop ("read
    your notes"). A `required` scope has a mark in place of a checkbox.
    """

    scope: str
    sentence: str
    required: bool = False
    #: False for a box the person had cleared when the page is shown again.
    chosen: bool = True
    #: The name of the API to which it belongs; "" for the default API and for the account.
    api: str = ""


class ClaimLine(Struct, frozen=True):
    """A single claim that the app requests, described in a sentence like a scope."""

    claim: str
    sentence: str
    chosen: bool = True


class ConsentPage(Struct, frozen=True):
    """Ask a signed-in user whether an app may have the requested access.

    Posts `csrf`, `decision=allow` or `decision=deny`, `scope` or `claim` once for each box left
    checked, and `required` for each required scope shown. Another account: `csrf` to
    `switch_account_action`.
    """

    template: ClassVar[str] = "consent/consent.html"

    action: str
    switch_account_action: str
    app: AskingApp
    person: CurrentUser
    scopes: tuple[ScopeLine, ...]
    #: Seconds the access can last at most.
    lasts: int
    #: Where access can be ended earlier; empty while there is no such page.
    account_url: str = ""
    claims: tuple[ClaimLine, ...] = ()
    changes: tuple[ChangeShown, ...] = ()
    #: The person pressed Allow with every box cleared.
    nothing_chosen: bool = False


NO_DECISION = Refusal(
    ErrorCode.INVALID_REQUEST,
    "the form was sent without a decision; go back and choose Allow or Deny",
    "consent.decision",
    "allow or deny",
    "something else",
)

PURPOSE = "consent"
"""The purpose of the form's CSRF token."""

_NOTHING_CHOSEN = 400


class ConsentRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a signed-in user who decides about an app's authorization request."""

    pending: Pending
    signed_in: SignedIn


class ConsentPages(Struct, frozen=True):
    """Ask a signed-in user whether the app may have the requested access."""

    server: Server

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the consent page, and the button that switches to another account."""
        decide = Act(self.decide, multiple=("scope", "required", "claim"))
        return (
            Page(CONSENT, self._asked(AUTHORIZE), self.show, decide, step=True),
            Page(SWITCH_ACCOUNT, self._asked(SIGN_IN), act=Act(self.switch_account)),
        )

    async def show(self, request: ConsentRequest) -> Outcome:
        """Show the requested access, or return to the authorization endpoint for another step."""
        if not isinstance(request.pending.step, Ask):
            return SeeOther(decides_again(self.server, request.pending.interaction))
        return self._page(request)

    async def decide(self, request: ConsentRequest) -> Outcome:
        """Encrypt the decision and return to the authorization endpoint, which acts on it.

        Only what was shown and checked counts; the requested permissions come from the encrypted
        interaction, never from the form.
        """
        pending, form = request.pending, request.form
        decision = form.get("decision")
        if decision == "deny":
            denied = replace(pending.interaction, denied=True)
            return SeeOther(decides_again(self.server, denied))
        if decision != "allow":
            raise Refused(NO_DECISION)
        if pending.begins_again:
            # The user decides about what is asked for now.
            return SeeOther(decides_again(self.server, pending.interaction))
        ticked = Scope((*form.all("scope"), *form.all("required")))
        if not required_of(pending.client) & pending.authorization.scope <= ticked:
            # Declared as required since the page was shown: the user must see it first.
            return SeeOther(address(self.server, CONSENT, pending.interaction))
        allowed = chosen_places(pending.authorization, ticked, form.all("claim"))
        if not allowed:
            return self._page(request, nothing_chosen=True)
        session_id = request.signed_in.session.id
        decided = replace(
            pending.interaction,
            decided=session_id,
            allowed=allowed,
            shown=digest(pending.authorization),
        )
        return SeeOther(decides_again(self.server, decided))

    async def switch_account(self, request: ConsentRequest) -> Outcome:
        """Redirect to the sign-in page to choose another account."""
        return SeeOther(address(self.server, SIGN_IN, request.pending.interaction))

    def _asked(self, otherwise: str) -> Requirement[ConsentRequest]:
        """Require a signed-in user with a pending request; others go to `otherwise`."""

        async def requirement(visit: PageVisit) -> ConsentRequest:
            form = visit.form()
            pending = await open_pending(self.server, visit.request)
            signed_in, interaction = pending.signed_in, pending.interaction
            if signed_in is None:
                raise Interrupt(see_other(address(self.server, otherwise, interaction)))
            session_id = signed_in.session.id
            it = visitor_request(
                *(visit, form, PURPOSE, interaction.id, session_id),
                form_about=(pending.form_of, session_id),
            )
            return ConsentRequest(
                it.request,
                it.browser,
                it.csrf,
                it.headers,
                it.form,
                pending=pending,
                signed_in=signed_in,
            )

        return requirement

    def _page(self, request: ConsentRequest, *, nothing_chosen: bool = False) -> Show:
        pending, signed_in = request.pending, request.signed_in
        sealed = quote(sealed_in(request.request), safe="")
        page = ConsentPage(
            action=f"{CONSENT}?interaction={sealed}",
            switch_account_action=f"{SWITCH_ACCOUNT}?interaction={sealed}",
            app=asking_app(pending.client, pending.authorization, signed_in=True),
            person=shown_user(signed_in),
            scopes=scope_lines(
                described(
                    pending.authorization.scope, pending.authorization.apis, self.server.scopes
                ),
                required_of(pending.client),
                chosen=not nothing_chosen,
            ),
            claims=tuple(
                ClaimLine(name, CLAIM_WORDS[name], not nothing_chosen)
                for name in pending.authorization.single_claims
            ),
            lasts=self._lasts(pending),
            account_url=APPS,
            changes=changes_since(_before(pending), pending.client),
            nothing_chosen=nothing_chosen,
        )
        status = _NOTHING_CHOSEN if nothing_chosen else 200
        return Show(page, status, returns_to=pending.authorization.returns.redirect_uri)

    def _lasts(self, pending: Pending) -> int:
        policy, client = self.server.policy, pending.client
        if pending.authorization.response_type.has_code:
            return policy.grant_lifetime(client, pending.authorization.apis)
        once = max(policy.lifetime_of(client, api) for api in pending.authorization.apis)
        return min(once, policy.implicit_token_lifetime)


def required_of(client: Client) -> Scope:
    """Return the scopes that a user cannot clear, such as `openid`."""
    return client.required_scope | Scope.of(OPENID)


def scope_lines(
    texts: Iterable[ScopeText], required: Scope, *, chosen: bool
) -> tuple[ScopeLine, ...]:
    """Return the scopes as checkboxes, those of `required` as fixed."""
    return tuple(
        ScopeLine(text.stored, text.sentence, text.stored in required, chosen, text.api)
        for text in texts
    )


def _before(pending: Pending) -> Consent | None:
    return None if pending.state.person is None else pending.state.person.consent


def changes_since(consent: Consent | None, client: Client) -> tuple[ChangeShown, ...]:
    """Return the changes of the app's appearance since the user's consent."""
    if consent is None:
        return ()
    before = consent.appearance.split("\n")
    after = client.appearance.split("\n")
    if before == after or len(before) != len(after):
        return ()
    changes: list[ChangeShown] = []
    if before[0] != after[0]:
        changes.append(ChangeShown(ChangedPart.NAME, before[0]))
    if before[1] != after[1]:
        changes.append(ChangeShown(ChangedPart.LOGO))
    if before[2:4] != after[2:4]:
        changes.append(ChangeShown(ChangedPart.TERMS))
    if before[4] != after[4]:
        changes.append(ChangeShown(ChangedPart.PLACE))
    return tuple(changes)
