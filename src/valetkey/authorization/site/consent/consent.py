"""GET and POST /oauth/consent: may the app do this? And the way to another account."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote

from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    address,
    decides_again,
    open_pending,
    sealed_in,
)
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import APPS, CONSENT, SIGN_IN, SWITCH_ACCOUNT
from valetkey.authorization.layout.contexts import AskingApp, SignedInPerson
from valetkey.authorization.model.consent import Consent
from valetkey.authorization.model.register.client import Client, GrantTypeName
from valetkey.authorization.protocol.claims import OPENID
from valetkey.authorization.protocol.interaction import Ask, chosen_places
from valetkey.authorization.site.consent.claim_words import CLAIM_WORDS
from valetkey.authorization.site.presentation import Renderer, asking_app, shown_person
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.scope import Scope
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import read_form


class ChangedPart(StrEnum):
    """What an app changed about itself since the person last allowed it."""

    NAME = "name"
    LOGO = "logo"
    TERMS = "terms"  # or its privacy policy
    PLACE = "place"  # where it takes people back to


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the app; `before` is what it was, empty where there is nothing to quote."""

    part: ChangedPart
    before: str = ""


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One scope in plain words.

    `sentence` continues "Notes Printer wants to …": a verb first, small letter, no full stop
    ("read your notes"). A `required` scope has a mark in place of a checkbox.
    """

    scope: str
    sentence: str
    required: bool = False
    #: False for a box the person had cleared when the page is shown again.
    chosen: bool = True


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One thing that the app wants to know by itself; the sentence is as that of a scope."""

    claim: str
    sentence: str
    chosen: bool = True


@dataclass(frozen=True, slots=True)
class ConsentPage:
    """Ask a signed-in person whether an app may do what it wants.

    Posts `csrf`, `decision=allow` or `decision=deny`, and `scope` or `claim` once for each box left
    checked (required scopes have no box and are not posted). Another account: `csrf` to
    `switch_account_action`.
    """

    template: ClassVar[str] = "consent/consent.html"

    action: str
    switch_account_action: str
    csrf: str
    app: AskingApp
    person: SignedInPerson
    scopes: tuple[ScopeLine, ...]
    #: Seconds the access can last at most.
    lasts: int
    #: Where access can be ended earlier; empty while there is no such page.
    account_url: str = ""
    claims: tuple[ClaimLine, ...] = ()
    changes: tuple[Change, ...] = ()
    #: The person pressed Allow with every box cleared.
    nothing_chosen: bool = False


PURPOSE = "consent"
"""The purpose of the form's token."""

_NOTHING_CHOSEN = 400


@dataclass(frozen=True, slots=True)
class ConsentEndpoint:
    """The consent page."""

    server: Server
    renderer: Renderer

    async def get(self, request: Request) -> Response:
        """Show the page; if another step is due first, return to the authorization endpoint."""
        pending = await open_pending(self.server, request)
        if isinstance(pending, Response):
            return pending
        if not isinstance(pending.step, Ask) or pending.signed_in is None:
            return see_other(decides_again(self.server, pending.interaction))
        return self._page(request, pending, pending.signed_in)

    async def post(self, request: Request) -> Response:
        """Seal the decision and return to the authorization endpoint, which acts on it.

        Only what was ticked counts; every other field of the form is ignored, because the sealed
        interaction says what was asked.
        """
        self.server.check_origin(request)
        form = read_form(request.body, multiple=("scope", "claim"))
        pending = await open_pending(self.server, request)
        if isinstance(pending, Response):
            return pending
        if pending.signed_in is None:
            return see_other(decides_again(self.server, pending.interaction))
        browser = self.server.cookies.browser(request)
        about = _about(pending, pending.signed_in)
        self.server.check_form(request, form, browser, PURPOSE, *about)
        decision = form.get("decision")
        if decision == "deny":
            denied = replace(pending.interaction, denied=True)
            return see_other(decides_again(self.server, denied))
        if decision != "allow":
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "the form was sent without a decision; go back and press Allow or Deny",
                    "consent.decision",
                    "allow or deny",
                    "something else",
                )
            )
        ticked = Scope(form.all("scope")) | pending.client.required_scope
        allowed = chosen_places(pending.asked, ticked, form.all("claim"))
        if not allowed:
            return self._page(request, pending, pending.signed_in, nothing_chosen=True)
        session_id = pending.signed_in.session.id
        decided = replace(pending.interaction, decided=session_id, allowed=allowed)
        return see_other(decides_again(self.server, decided))

    async def switch_account(self, request: Request) -> Response:
        """Redirect to the sign-in page, for another account. Nothing else changes."""
        self.server.check_origin(request)
        form = read_form(request.body)
        pending = await open_pending(self.server, request)
        if isinstance(pending, Response):
            return pending
        if pending.signed_in is not None:
            browser = self.server.cookies.browser(request)
            about = _about(pending, pending.signed_in)
            self.server.check_form(request, form, browser, PURPOSE, *about)
        return see_other(address(self.server, SIGN_IN, pending.interaction))

    def _page(
        self,
        request: Request,
        pending: Pending,
        signed_in: SignedIn,
        *,
        nothing_chosen: bool = False,
    ) -> Response:
        app = asking_app(pending.client, pending.asked, signed_in=True)
        sealed = quote(sealed_in(request), safe="")
        browser = self.server.cookies.browser(request)
        required = pending.client.required_scope | Scope.of(OPENID)
        page = ConsentPage(
            action=f"{CONSENT}?interaction={sealed}",
            switch_account_action=f"{SWITCH_ACCOUNT}?interaction={sealed}",
            csrf=self.server.csrf(browser, PURPOSE, *_about(pending, signed_in)),
            app=app,
            person=shown_person(signed_in),
            scopes=tuple(
                ScopeLine(name, self.server.scopes[name], name in required, not nothing_chosen)
                for name in pending.asked.scope
            ),
            claims=tuple(
                ClaimLine(name, CLAIM_WORDS[name], not nothing_chosen)
                for name in pending.asked.single_claims
            ),
            lasts=self._lasts(pending),
            account_url=APPS,
            changes=changes_since(_before(pending), pending.client),
            nothing_chosen=nothing_chosen,
        )
        return self.renderer.page(
            request,
            page,
            _NOTHING_CHOSEN if nothing_chosen else 200,
            returns_to=pending.asked.returns.redirect_uri,
        )

    def _lasts(self, pending: Pending) -> int:
        policy, client = self.server.policy, pending.client
        once = policy.lifetime_of(client)
        if not pending.asked.response_type.has_code:
            return min(once, policy.implicit_token_lifetime)
        if client.may_use(GrantTypeName.REFRESH_TOKEN):
            return policy.refresh_token_lifetime
        return once


def _about(pending: Pending, signed_in: SignedIn) -> tuple[str, str]:
    return pending.interaction.id, signed_in.session.id


def _before(pending: Pending) -> Consent | None:
    return None if pending.known.person is None else pending.known.person.consent


def changes_since(consent: Consent | None, client: Client) -> tuple[Change, ...]:
    """Return how the app's appearance differs from the one that the user consented to."""
    if consent is None:
        return ()
    before = consent.appearance.split("\n")
    after = client.appearance.split("\n")
    if before == after or len(before) != len(after):
        return ()
    changes: list[Change] = []
    if before[0] != after[0]:
        changes.append(Change(ChangedPart.NAME, before[0]))
    if before[1] != after[1]:
        changes.append(Change(ChangedPart.LOGO))
    if before[2:4] != after[2:4]:
        changes.append(Change(ChangedPart.TERMS))
    if before[4] != after[4]:
        changes.append(Change(ChangedPart.PLACE))
    return tuple(changes)
