"""Register an app, change it, and manage its team."""

import re
from collections.abc import Callable, Mapping
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.clients import Faults, metadata_of
from valetkey.authorization.actions.presets import PRESETS, RegistrationDenial, kind_of
from valetkey.authorization.actions.teams import (
    FreshInvitation,
    TeamApp,
    TeamError,
    Teams,
    find_own,
)
from valetkey.authorization.layout.addresses import DEVELOPER, NEW_APP
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.viewer import viewer_of
from valetkey.authorization.model.client import (
    Client,
    Membership,
    TeamRole,
    is_by_secret,
)
from valetkey.authorization.model.user import LARGEST_UID, Uid
from valetkey.authorization.portal.rules.apps import Portal
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.site.admin.clients.app_form import (
    APP_CHOICES,
    APP_GROUPS,
    APP_STATES,
    DEVELOPER_WORDS,
    VERIFIED,
    AppFields,
    DeveloperChange,
    changed_since,
    version_of,
)
from valetkey.authorization.site.admin.clients.registration import (
    REGISTER_BUTTON,
    AppRegistration,
    NewApp,
    NewIds,
    Registration,
)
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.input_fields import typed
from valetkey.authorization.site.admin.input_form import SAVE, FormFields, FormSubject
from valetkey.authorization.site.admin.references import suggestions
from valetkey.authorization.site.app_team import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    head_of,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

_RECENT = minutes(5)
_DOCS = "reference/client-fields.html"


_TITLE, _FRAME = translatable("Settings"), "portal/pages/frame.html"
_DELETE = translatable("Delete app")
_DELETES = translatable("The app stops working for all users. This cannot be undone.")


class _Outdated(Struct, frozen=True):
    """Faults of a save: the app was changed after the form was opened."""

    app: TeamApp
    parts: tuple[str, ...]


def _fields(portal: Portal, store: Store, submit: str = SAVE) -> FormFields:
    """Return the form of an app with the fields of developers."""
    return FormFields(
        store,
        DeveloperChange,
        DEVELOPER_WORDS,
        _TITLE,
        submit,
        choices=APP_CHOICES,
        groups=APP_GROUPS,
        states=APP_STATES,
        references={"scopes": suggestions(lambda: portal.rules.scopes)},
    )


class Settings(Struct, frozen=True):
    """Change the settings of an app."""

    store: Store
    scopes: Mapping[str, str]
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        act, path = _fields(self.portal, self.store).act(self.save), f"{APP}/settings"
        return (
            Page(path, member_of_app, self.show, act, title=_TITLE, nav=CONFIGURATION, docs=_DOCS),
        )

    @property
    def _app(self) -> AppFields:
        return AppFields(self.portal.rules, self.scopes, for_developers=True)

    async def show(self, request: AppRequest) -> Outcome:
        """Show the form with the current settings of the app."""
        subject = self._subject(request, request.client)
        return await _fields(self.portal, self.store).draw(request, subject)

    async def save(self, request: AppRequest) -> Outcome:
        """Save the app, or show its faults; the buttons of lists save nothing."""
        form, uid, now = request.form, request.user.uid, request.now
        client_id, version = request.client.id, form.get("etag") or ""
        subject, fields = self._subject(request, request.client), _fields(self.portal, self.store)
        body = await fields.submitted(request, subject)
        if isinstance(body, Show):
            return body

        def change(tx: Transaction) -> Client | Faults | _Outdated | None:
            held = tx.clients.find_to_change(client_id)
            current = None if held is None else find_own(tx, client_id, uid)
            if current is None:
                return None
            if parts := changed_since(current.client, version):
                return _Outdated(current, parts)
            metadata = self._app.edited(metadata_of(current.client), body)
            return self.portal.change(tx, current.client, metadata, now)

        done = await self.store.write(change, done_by=request.actor)
        values = typed(form, DEVELOPER_WORDS)
        match done:
            case None:
                raise not_found("app")
            case _Outdated(app, parts):
                current = self._subject(request, app.client)
                return await fields.draw(request, current, values, changed=parts)
            case Client():
                return SeeOther(f"{request.head.at('settings')}?saved=1")
            case faults:
                again = replace(subject, etag=version)
                return await fields.draw(request, again, values, faults)

    def _subject(self, request: AppRequest, client: Client) -> FormSubject:
        head = request.head
        saved = client.changed_at > request.now - _RECENT and "saved" in request.query
        app, kind = metadata_of(client), kind_of(client)
        delete = Offer("delete", _DELETE, head.at("delete"), danger=True, text=_DELETES)
        return replace(
            self._app.subject(app, kind, head.at(), head.name or client.id),
            etag=version_of(client),
            frame=_FRAME,
            app=head,
            note=VERIFIED if client.verified_at is not None else "",
            done=translatable("Saved.") if saved else "",
            offers=(delete,) if head.owns else (),
        )


class RegisterApp(Struct, frozen=True):
    """Register an app that its user owns."""

    store: Store
    keyring: Keyring
    random: Callable[[int], bytes]
    scopes: Mapping[str, str]
    issuer: str
    portal: Portal

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        registration = AppRegistration(
            NEW_APP,
            _FRAME,
            lambda: AppFields(self.portal.rules, self.scopes, for_developers=True),
            _fields(self.portal, self.store, REGISTER_BUTTON),
            NewIds(self.keyring, self.random),
            self.issuer,
            lambda request: request.session.id,
            self._denial,
            self._register,
        )
        return (registration.page(signed_in, nav=True),)

    async def _denial(self, request: SignedInRequest) -> RegistrationDenial | None:
        user = request.user
        return await self.store.read(lambda tx: self.portal.registration_denial(tx, user))

    async def _register(
        self, request: SignedInRequest, app: ClientMetadata, client_id: str
    ) -> Registration:
        user, now = request.user, request.now
        secret = None
        if is_by_secret(app.proof):
            secret = fresh_secret(Prefix.CLIENT_SECRET, self.random)

        def register(tx: Transaction) -> TeamApp | Faults | RegistrationDenial | None:
            if find_own(tx, client_id, user.uid) is not None:
                return None
            made = self.portal.register(tx, user, app, now, client_id=client_id, secret=secret)
            return find_own(tx, client_id, user.uid) if isinstance(made, Client) else made

        made = await self.store.write(register, done_by=request.actor)
        if made is None:
            # A repeated submit or a reload: the secret has been shown.
            return SeeOther(AppHead(client_id, "").at())
        if isinstance(made, TeamApp):
            head, preset = head_of(made), request.form.get("preset")
            url = f"{head.at('quickstart')}?in={preset}" if preset in PRESETS else head.at()
            return NewApp(head.name, url, "" if secret is None else secret.reveal(), head)
        return made


_CONFLICT = 409
_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_DONE = ("invited", "withdrawn", "changed", "removed")


class MemberLine(Struct, frozen=True):
    """One member; `number` names them in forms."""

    number: str
    name: str
    username: str
    owns: bool
    since: When
    #: Whether it is the visitor.
    here: bool = False


class InvitationLine(Struct, frozen=True):
    """One invitation that was not answered yet."""

    id: str
    invited: str
    owner: bool
    since: When


class TeamPage(Struct, frozen=True):
    """The context of team.html. Its forms post `csrf` and `do`, with the fields of that action.

    `trouble` is the reason for a failure: invalid, number, member, twice, full, last_owner. `typed`
    is the input of the form that failed.
    """

    template: ClassVar[str] = "portal/pages/team.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    members: tuple[MemberLine, ...]
    waiting: tuple[InvitationLine, ...] = ()
    typed: str = ""
    trouble: str = ""
    #: invited, withdrawn, changed, removed, or "" for nothing.
    done: str = ""
    #: Invitations are emailed; without email they are shown in the portal of the invited user.
    by_mail: bool = True


class RemoveMemberPage(Struct, frozen=True):
    """The context of remove_member.html. Its form posts `csrf` and `member`.

    With `member.here` the visitor leaves the team.
    """

    template: ClassVar[str] = "portal/pages/remove_member.html"

    app: AppHead
    action: str
    member: MemberLine


class Team(Struct, frozen=True):
    """Show the team to its members; owners can change it."""

    store: Store
    random: Callable[[int], bytes]
    teams: Teams

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, change = translatable("Team"), Act(self.change, requires=_may_change)
        remove = Act(self.remove)
        return (
            Page(f"{APP}/team", _may_see, self.show, change, title=title, nav=CONFIGURATION),
            Page(f"{APP}/team/remove", _confirmed_member, self.ask_to_remove, remove, title=title),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the members and open invitations."""
        done = request.query.get("done") or ""
        return await self._list(request, done=done if done in _DONE else "")

    async def change(self, request: AppRequest) -> Outcome:
        """Invite a user, withdraw an invitation, or change a role."""
        match request.form.get("do"):
            case "invite":
                return await self._invite(request)
            case "withdraw":
                return await self._withdraw(request)
            case _:
                return await self._change_role(request)

    async def ask_to_remove(self, request: AppRequest) -> Outcome:
        """Ask before a member is removed."""
        uid, client_id, head = _member(request, request.query), request.client.id, request.head
        line = await self.store.read(lambda tx: _line(tx, tx.members.find(client_id, uid), request))
        if line is None:
            raise not_found("person")
        return Show(RemoveMemberPage(head, head.at("team/remove"), line))

    async def remove(self, request: AppRequest) -> Outcome:
        """Remove the member."""
        uid, by, now = _member(request, request.form), request.user.uid, request.now
        trouble = await self.store.write(
            lambda tx: self.teams.remove(tx, request.client.id, by, uid, now),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "person")
        return SeeOther(DEVELOPER) if uid == by else _done(request, "removed")

    async def _invite(self, request: AppRequest) -> Outcome:
        invited = (request.form.get("invited") or "").strip()
        role = TeamRole.OWNER if request.form.get("role") == TeamRole.OWNER else TeamRole.MEMBER
        random, by, now = self.random, request.user, request.now
        fresh = FreshInvitation(fresh_id("ti", random), fresh_secret(Prefix.LINK, random))
        language = viewer_of(request.request, by).language.tag
        trouble = await self.store.write(
            lambda tx: self.teams.invite(
                tx, request.client.id, by, invited, role, fresh, now, language=language
            ),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "app", typed=invited)
        return _done(request, "invited")

    async def _withdraw(self, request: AppRequest) -> Outcome:
        named, by, now = request.form.get("invitation") or "", request.user.uid, request.now
        done = named.isascii() and await self.store.write(
            lambda tx: self.teams.withdraw(tx, request.client.id, by, named, now),
            done_by=request.actor,
        )
        return _done(request, "withdrawn" if done else "")

    async def _change_role(self, request: AppRequest) -> Outcome:
        uid, by, now = _member(request, request.form), request.user.uid, request.now
        role = next((role for role in TeamRole if role == request.form.get("role")), None)
        if role is None:
            raise not_found("person")
        trouble = await self.store.write(
            lambda tx: self.teams.change(tx, request.client.id, by, uid, role, now),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "person")
        return _done(request, "changed")

    async def _refused(
        self, request: AppRequest, trouble: TeamError, gone: str, *, typed: str = ""
    ) -> Show:
        if trouble is TeamError.GONE:
            raise not_found(gone)
        return await self._list(request, trouble=trouble.value, typed=typed)

    async def _list(
        self, request: AppRequest, *, trouble: str = "", typed: str = "", done: str = ""
    ) -> Show:
        client_id, now, head = request.client.id, request.now, request.head

        def read(tx: Transaction) -> tuple[list[MemberLine | None], list[InvitationLine]]:
            team = [_line(tx, one, request) for one in tx.members.team(client_id)]
            waiting = [
                InvitationLine(
                    invitation.id,
                    invitation.invited,
                    invitation.role is TeamRole.OWNER,
                    When(invitation.created_at, now),
                )
                for invitation in tx.team_invitations.to(client_id, now)
            ]
            return team, waiting

        team, waiting = await self.store.read(read)
        context = TeamPage(
            app=head,
            action=head.at("team"),
            members=tuple(line for line in team if line is not None),
            waiting=tuple(waiting),
            typed=typed,
            trouble=trouble,
            done=done,
            by_mail=self.teams.outbox.is_on,
        )
        return Show(context, _CONFLICT if trouble else 200)


async def _may_see(visit: PageVisit) -> AppRequest:
    member = await member_of_app(visit)
    # Owners confirm before the form is shown: what they type into it must not be lost.
    return await confirmed_at(visit, member, "team") if member.app.membership.owns else member


async def _may_change(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "team")


async def _confirmed_member(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await member_of_app(visit), "team")


def _member(request: AppRequest, form: Form) -> Uid:
    """Return the member that the form names. Refused (not found) for others, unless by an owner."""
    text = form.get("member") or ""
    if _NUMBER.fullmatch(text) is None or int(text) > LARGEST_UID:
        raise not_found("person")
    uid = Uid(int(text))
    if uid != request.user.uid and not request.app.membership.owns:
        raise not_found("person")
    return uid


def _done(request: AppRequest, what: str) -> SeeOther:
    path = request.head.at("team")
    return SeeOther(f"{path}?done={quote(what)}" if what else path)


def _line(tx: Transaction, one: Membership | None, request: AppRequest) -> MemberLine | None:
    user = None if one is None else tx.users.find(one.uid)
    if one is None or user is None:
        return None
    return MemberLine(
        number=str(user.uid),
        name=user.name,
        username=user.username,
        owns=one.owns,
        since=When(one.since, request.now),
        here=user.uid == request.user.uid,
    )
