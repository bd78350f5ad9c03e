"""/admin/clients/{client_id}: one app, and the operations on it."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin import search
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import LATEST, ClientWithUses, no_such_client
from valetkey.authorization.actions.clients import MOST_SECRETS, metadata_of
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.client import (
    DISCOURAGED,
    LISTS,
    RESOURCE_SERVER,
    Client,
    ClientSecret,
    FieldType,
    Membership,
)
from valetkey.authorization.model.user import uid_of
from valetkey.authorization.operations.client_records import NewSecret
from valetkey.authorization.operations.client_state import (
    ADD_GROUP,
    DELETE,
    REMOVE_GROUP,
    REMOVE_OWNER,
    SECRET,
)
from valetkey.authorization.operations.operation import ObjectLink, Services, call_of
from valetkey.authorization.protocol.client_authentication import BY_NAME
from valetkey.authorization.protocol.register.client_metadata import FIELDS
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.clients.clients import (
    CLIENTS,
    PROFILES,
    TYPES,
    client_address,
    client_states,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Subject,
    confirmation,
    done_word,
)
from valetkey.authorization.site.admin.events.events import EVENTS
from valetkey.authorization.site.admin.events.lines import EventRow, names_in, rows_of
from valetkey.authorization.site.admin.groups.groups import required_group
from valetkey.authorization.site.admin.object_page import (
    Adder,
    Fact,
    ObjectPage,
    RecentEvents,
    Related,
)
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    Part,
    badge,
    code,
    exact,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.references import Named, users_offered
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act as PageAct
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_SECRET,
    NEW_SECRET,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.search import EventFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name
from valetkey.web.body import Form

CLIENT = "/admin/clients/{client_id}"
GROUPS = "/admin/clients/{client_id}/groups"
ACT = "/admin/clients/{client_id}/{act}"


def secret_page(
    back: str, name: str, client_id: str, secret: str, *, others_end: bool
) -> NewSecretPage:
    """Return the page with a new secret; `others_end` if the other ones expire."""
    return NewSecretPage(
        title=NEW_SECRET,
        back=back,
        above=name,
        copied=(
            ShownValue("client-id", client_id, _COPY_ID, translatable("Client ID")),
            ShownValue("client-secret", secret, COPY_THE_SECRET, translatable("Secret")),
        ),
        after=(_OTHERS_END,) if others_end else (),
    )


_COPY_ID = translatable("Copy client ID")
_OTHERS_END = translatable(
    "Existing secrets expire at the time you chose. Deploy the new secret before then."
)
_BUTTONS = Buttons.below("/clients/{client_id}")
_DONE = {
    "edit": translatable("The app is saved."),
    "owner": translatable("The user is an owner of the app."),
    "group": translatable("Members of the group can sign in to the app."),
}
_FAULTS = {
    "unknown": translatable("User not found."),
    "several": translatable("Several users match. Enter the user ID of one of them."),
}
_LONGEST_ID = 100
_OFFERED = 100
_EVENTS = 10
_USUAL_END = "86400"
_NOW = "0"
_FULL = translatable(
    "Two secrets work, which is the maximum: both expire now. To keep one of them until the new "
    "one is deployed, revoke the other first."
)


class SecretChoices(Struct, frozen=True):
    """The choices of the page that issues a secret, and what to know about them."""

    values: Mapping[str, str]
    choices: Mapping[str, Sequence[str]]
    consequences: tuple[str, ...]


def secret_choices(live: Sequence[ClientSecret]) -> SecretChoices:
    """Return what can be chosen beside these secrets, which work."""
    if len(live) < MOST_SECRETS:
        return SecretChoices({"others_live": _USUAL_END}, {}, ())
    return SecretChoices({"others_live": _NOW}, {"others_live": (_NOW,)}, (_FULL,))


class ClientPages(Struct, frozen=True):
    """Show one app, and run operations on it."""

    services: Services
    links: Sequence[ObjectLink] = ()

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of an app, and the confirmation before an operation."""
        return (
            Page(CLIENT, administrator(), self.show),
            Page(GROUPS, administrator(Permission.CLIENTS), act=PageAct(self.add_group)),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the app without its secrets."""
        client_id, actor, now = named(request), request.actor, request.now

        def read_state(tx: Transaction) -> _ClientState:
            held = search.find_details(tx, actor, client_id, now)
            users = [(one.uid, tx.users.find(one.uid)) for one in held.team]
            events = tx.event_search.page(EventFilter(client_id=client_id), LATEST, _EVENTS)
            had = held.client.openid.required_groups
            offered = tx.groups.list("", _OFFERED + len(had) + 1)
            return _ClientState(
                held,
                {uid: user.username for uid, user in users if user is not None},
                [group.name for group in offered if group.name not in had],
                {name for name in had if tx.groups.find(name) is not None},
                rows_of(events, names_in(tx, events), now, self.services.kinds),
                users_offered(tx) if request.permissions.allow(Permission.CLIENTS) else (),
            )

        return Show(self._page(await self.services.store.scan(read_state), request))

    async def add_group(self, request: AdminRequest) -> Outcome:
        """Give a group access to the app."""
        group = (request.form.get("group") or "").strip()[:_LONGEST_ID]
        path = {
            "client_id": request.arguments["client_id"],
            "group": path_segment(group),
        }
        call = call_of(self.services, ADD_GROUP, request.actor, request.now, path)
        try:
            result = await ADD_GROUP.run(call)
        except Refused as refused:
            if refused.refusal.check != "group.unknown":
                raise
            return SeeOther(f"{_address(request)}?done=no-group#list-groups")
        return SeeOther(f"{_address(request)}?done={done_word('group', result.value)}")

    def _page(self, seen: "_ClientState", request: AdminRequest) -> ObjectPage:
        held, client, now = seen.held, seen.held.client, request.now
        may = request.permissions.allow(Permission.CLIENTS) and client.id != RESOURCE_SERVER
        done, address = request.query.get("done") or "", client_address(client.id)
        links = [
            *((("edit", translatable("Edit app"), f"{address}/edit"),) if may else ()),
            *(link.to(client.id) for link in self.links if link.path == "/clients/{client_id}"),
        ]
        return ObjectPage(
            CLIENTS,
            translatable("Apps"),
            client.name or client.id,
            state=client_states(
                disabled=client.disabled_at is not None,
                verified=client.verified_at is not None,
                self_registered=client.self_registered,
                legacy=any(client.may_use(grant_type) for grant_type in DISCOURAGED),
            ),
            notes=tuple(_notes(held)),
            description=client.description,
            done=_BUTTONS.done(done, _DONE),
            figures=(
                (translatable("Connected users"), held.people),
                (translatable("Authorizations"), held.authorizations),
            ),
            facts=tuple(_facts(client, now)),
            details=tuple(_details(client)),
            links=tuple(links),
            actions=tuple(
                offer
                for offer in (_BUTTONS.offers(client, request.permissions, address) if may else ())
                if offer.slug not in {"secret", "remove-owner", "remove-group", "end-secret"}
            ),
            related=(
                _secrets(client, f"{address}/end-secret" if may else "", now),
                _groups(seen, address, done, may=may),
                _team(seen, address, done, may=may),
            ),
            activity=RecentEvents(seen.events, with_query(EVENTS, {"client": client.id})),
        )

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        if isinstance(result, NewSecret):
            return await self._issued(request, result)
        if confirmed.operation is DELETE:
            return SeeOther(f"{CLIENTS}?deleted=1")
        return SeeOther(f"{_address(request)}?done={confirmed.button.slug}")

    async def _issued(self, request: AdminRequest, made: NewSecret) -> Outcome:
        held, _ = await self._look(request)
        client = held.client
        page = secret_page(
            client_address(client.id),
            client.name or client.id,
            client.id,
            made.client_secret,
            others_end=bool(request.form.get("others_live"))
            and len(client.live_secrets(request.now)) > 1,
        )
        return Show(page)

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        held, names = await self._look(request)
        client, carries = held.client, confirmed.button.carries
        facts = [client.id]
        if confirmed.operation is REMOVE_GROUP:
            group = form.get("group") or ""
            if group not in client.openid.required_groups:
                raise page_not_found()
            facts.append(group)
        elif confirmed.operation is REMOVE_OWNER:
            uid = uid_of(form.get("uid") or "")
            if uid is None or all(one.uid != uid for one in held.team):
                raise page_not_found()
            facts += [names.get(uid, ""), f"user ID {uid}"]
        elif carries is not None:
            subject = form.get(carries[0]) or ""
            if all(secret.id != subject for secret in client.live_secrets(request.now)):
                raise page_not_found()
            facts.append(subject)
        secrets = secret_choices(client.live_secrets(request.now))
        is_new = confirmed.operation is SECRET
        return Subject(
            client_address(client.id),
            client.name or client.id,
            tuple(facts),
            Impact(people=held.people, authorizations=held.authorizations),
            secrets.values,
            secrets.choices,
            consequences=secrets.consequences if is_new else (),
        )

    async def _look(self, request: AdminRequest) -> tuple[ClientWithUses, dict[int, str]]:
        client_id, actor, now = named(request), request.actor, request.now

        def read_state(tx: Transaction) -> tuple[ClientWithUses, dict[int, str]]:
            held = search.find_details(tx, actor, client_id, now)
            users = [(one.uid, tx.users.find(one.uid)) for one in held.team]
            return held, {uid: user.username for uid, user in users if user is not None}

        return await self.services.store.scan(read_state)


def _address(request: AdminRequest) -> str:
    return client_address(named(request))


def named(request: AdminRequest) -> str:
    """Return the client id in the path. Raises Refused (not found) for other text."""
    # Generated ids need no encoding in a URL; ids chosen by operators may.
    name = segment_name(request.arguments["client_id"])
    if not name or len(name) > _LONGEST_ID:
        raise no_such_client()
    return name


def secret_lines(secrets: Sequence[ClientSecret], end_url: str, now: Instant) -> tuple[Line, ...]:
    """Return the lines of these secrets; an empty `end_url` hides the Revoke buttons."""
    return tuple(
        Line(
            code(secret.id),
            below=(
                words(translatable("Does not expire"))
                if secret.expires_at is None
                else exact(When(secret.expires_at, now), translatable("Ends %(moment)s.")),
            ),
            act=LineButton(
                with_query(end_url, {"secret": secret.id}),
                translatable("Revoke"),
                translatable("Revoke %(name)s"),
                secret.id,
            )
            if end_url
            else None,
        )
        for secret in secrets
    )


class _ClientState(Struct, frozen=True):
    held: ClientWithUses
    #: The usernames of the team.
    names: dict[int, str]
    #: Groups without access, one more than are offered if there are many.
    groups: Sequence[str]
    #: Groups that the app requires and that exist.
    existing: Collection[str]
    events: tuple[EventRow, ...]
    #: Usernames that the form for an owner offers.
    users: tuple[Named, ...]


def _notes(held: ClientWithUses) -> Iterator[Part]:
    if held.client.disabled_at is not None:
        yield words(translatable("No user can sign in to the app, and it gets no tokens."))
    if held.sighting is not None and held.sighting.requests:
        yield replace(
            words(
                translatable(
                    "Its secret was sent in a URL (requests: %(count)s). Proxies log URLs: issue a"
                    " new secret, then revoke this one."
                ),
                count=str(held.sighting.requests),
            ),
            tone="alarm",
        )


def _facts(client: Client, now: Instant) -> Iterator[Fact]:
    """Return what is mostly looked for, in words."""
    method = BY_NAME.get(client.authentication_method)
    yield Fact(
        translatable("Client ID"), (replace(code(client.id), kind="copy", small="client-id"),)
    )
    yield Fact(translatable("Runs"), (words(TYPES[client.type.value], client.type.value),))
    if method is not None:
        yield Fact(translatable("Authentication"), (words(method.label, method.name),))
    yield Fact(translatable("Redirect URIs"), tuple(code(uri) for uri in client.redirect_uris))
    yield Fact(translatable("Permissions"), tuple(code(scope) for scope in sorted(client.scope)))
    if client.access_token_lifetime is None:
        lifetime = words(translatable("As set for the server"))
    else:
        lifetime = Part("duration", count=client.access_token_lifetime)
    yield Fact(translatable("Access tokens last"), (lifetime,))
    times = (
        (translatable("Registered"), client.created_at),
        (translatable("Changed"), client.changed_at),
        (translatable("Verified"), client.verified_at),
        (translatable("Disabled"), client.disabled_at),
    )
    yield from (Fact(label, (since(When(at, now)),)) for label, at in times if at is not None)


_CHOICES = {
    **PROFILES,
    "web": translatable("Web app"),
    "native": translatable("App on a phone or computer"),
    "jwt": translatable("Signed, so that APIs can read them"),
    "reference": translatable("Opaque, so that APIs ask this server"),
    "auto": translatable("As requested if the app registered itself, otherwise by permission"),
    "scope": translatable("Those of the granted permissions"),
    "requested": translatable("Only those that a request names"),
    "public": translatable("The same user ID for all apps"),
    "pairwise": translatable("A user ID of its own for each app"),
}
_SHOWN_ABOVE = frozenset(
    {
        "name",
        "description",
        "type",
        "authentication_method",
        "redirect_uris",
        "scopes",
        "access_token_lifetime",
        "required_groups",
        "key_set",  # too long
    }
)


def _details(client: Client) -> Iterator[Fact]:
    """Return every other field that has a label or is not as it is by default."""
    metadata = metadata_of(client)
    for field in FIELDS.values():
        value, kind = field.value_of(metadata), field.rule.kind
        label = field.rule.label or EDIT_LABELS.get(field.name) or field.name
        plain = value == field.default and not field.rule.label
        if field.name in _SHOWN_ABOVE or plain or value in ("", (), None):
            continue
        if kind in LISTS:
            yield Fact(label, tuple(code(item) for item in value))
        elif kind is FieldType.FLAG:
            yield Fact(label, (words(translatable("yes") if value else translatable("no")),))
        elif field.name == "default_max_age":
            yield Fact(label, (Part("duration", count=value),))
        elif str(value) in _CHOICES:
            yield Fact(label, (words(_CHOICES[str(value)], str(value)),))
        else:
            yield Fact(label, (code(str(value)),))


EDIT_LABELS = {
    "default_scopes": translatable("Default scopes"),
    "required_scopes": translatable("Required scopes"),
    "rotates_refresh_token": translatable("Rotate refresh tokens"),
    "ends_with_session": translatable("Access ends with the session"),
    "id_token_claims": translatable("Claims in ID tokens"),
    "exchanges_tokens_of": translatable("Exchanges tokens of"),
    "exchanges_for": translatable("Exchanges tokens for"),
    "assertion_audiences": translatable("Audiences of assertions"),
    "subject_type": translatable("User ID in tokens"),
    "default_max_age": translatable("Users sign in again after"),
    "contacts": translatable("Contacts"),
    "jwks_uri": translatable("Address of its keys"),
}
"""Labels of fields without one in their rule."""


def _secrets(client: Client, end_url: str, now: Instant) -> Related:
    return Related(
        "secrets",
        translatable("Active secrets"),
        secret_lines(client.live_secrets(now), end_url, now),
        translatable("No active secret. The app gets no tokens until you create one.")
        if client.has_secret
        else translatable("No secret: the app authenticates without one."),
        add_url=client_address(client.id, "secret") if end_url and client.has_secret else "",
        add_title=translatable("New secret"),
    )


def _groups(seen: _ClientState, address: str, typed: str, *, may: bool) -> Related:
    had, groups = seen.held.client.openid.required_groups, seen.groups
    many = len(groups) > _OFFERED
    adder = Adder(
        f"{address}/groups",
        "give",
        "group",
        translatable("Give access to a group"),
        translatable("The name of a group.") if many else "",
        () if many else tuple((name, name) for name in groups),
        fault=translatable("Group not found.") if typed == "no-group" else "",
        warning=""
        if had
        else translatable("With the first group, only its members can sign in to the app."),
    )
    return Related(
        "groups",
        translatable("Groups with access"),
        tuple(
            Line(
                shown[0],
                below=shown[1:],
                act=LineButton(
                    with_query(f"{address}/remove-group", {"group": name}),
                    translatable("Remove"),
                    translatable("Remove %(name)s"),
                    name,
                )
                if may
                else None,
            )
            for name in had
            for shown in (required_group(name, exists=name in seen.existing),)
        ),
        translatable("All users can sign in to the app."),
        adder=adder if may and groups else None,
    )


def _team(seen: _ClientState, address: str, typed: str, *, may: bool) -> Related:
    adder = Adder(
        f"{address}/owners",
        "add",
        "person",
        translatable("Add an owner"),
        translatable("A username, email address or user ID."),
        fault=_FAULTS.get(typed, ""),
        offered=seen.users,
    )
    return Related(
        "team",
        translatable("Team"),
        tuple(_member(one, seen.names, address, may=may) for one in seen.held.team),
        translatable("No team: the app was registered by the operator, or registered itself."),
        adder=adder if may else None,
    )


def _member(one: Membership, names: dict[int, str], address: str, *, may: bool) -> Line:
    name = names.get(one.uid, str(one.uid))
    return Line(
        text(name, user_address(one.uid)),
        (badge(translatable("Owner") if one.owns else translatable("Member")),),
        act=LineButton(
            with_query(f"{address}/remove-owner", {"uid": str(one.uid)}),
            translatable("Remove"),
            translatable("Remove %(name)s"),
            name,
        )
        if may
        else None,
    )
