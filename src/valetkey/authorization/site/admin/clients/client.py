"""/admin/clients/{client_id}: one app, and the operations on it."""

from collections.abc import Iterator, Sequence
from typing import ClassVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from valetkey.authorization.actions.admin import clients
from valetkey.authorization.actions.admin.clients import ClientWithUses, no_such_client
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.clients import metadata_of
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
from valetkey.authorization.operations.client_state import DELETE, REMOVE_OWNER
from valetkey.authorization.operations.operation import ObjectLink, Services
from valetkey.authorization.protocol.register.client_metadata import FIELDS
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.clients.clients import CLIENTS, ClientRow, client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.events.events import EVENTS
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.shown_once import (
    COPY_THE_SECRET,
    NEW_SECRET,
    NewSecretPage,
    ShownValue,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.body import Form

CLIENT = "/admin/clients/{client_id}"
ACT = "/admin/clients/{client_id}/{act}"


class ClientSecretLine(Struct, frozen=True):
    """A client secret; `end_url` is the confirmation page that revokes it."""

    id: str
    end_url: str
    ends: When | None = None


class TeamLine(Struct, frozen=True):
    """A member of the app's team."""

    name: str
    owns: bool
    url: str
    #: The confirmation before the user is removed; "" if the role may not.
    remove_url: str = ""


class Fact(Struct, frozen=True):
    """One field of the app; its values are `words` to be translated or code."""

    label: str
    values: tuple[str, ...]
    words: bool = False


class ClientPage(Struct, frozen=True):
    """The data of one app, without its secrets."""

    template: ClassVar[str] = "admin/clients/client.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    row: ClientRow
    description: str
    needs_pkce: bool
    facts: tuple[Fact, ...]
    changed: When
    verified_since: When | None
    disabled_since: When | None
    team: tuple[TeamLine, ...]
    secrets: tuple[ClientSecretLine, ...]
    people: int
    authorizations: int
    seen_in_url: int
    ways: tuple[Offer, ...]
    events_url: str
    #: Slug, title and address of the links that features add.
    links: tuple[tuple[str, str, str], ...]
    #: The operation that was just run; "" for none.
    done: str = ""
    #: The form that edits the app, and the address that adds an owner; "" if the role may not.
    edit_url: str = ""
    add_action: str = ""
    #: Why no owner was added, translatable.
    fault: str = ""


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
}
_FAULTS = {
    "unknown": translatable("User not found."),
    "several": translatable("Several users match. Enter the uid of one of them."),
}
_LONGEST_ID = 100
_ELSEWHERE = frozenset({"name", "description", "requires_pkce", "key_set"})
"""Fields shown elsewhere on the page, and the key set, which is too long."""

_USUAL_END = "86400"


class ClientPages(Struct, frozen=True):
    """Show one app, and run operations on it."""

    services: Services
    links: Sequence[ObjectLink] = ()

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of an app, and the confirmation before an operation."""
        return (
            Page(CLIENT, administrator(), self.show),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the app without its secrets."""
        held, names = await self._look(request)
        said = request.query.get("done")
        page = _page(held, names, request, _BUTTONS.done(said, _DONE), self.links)
        return Show(replace(page, fault=_FAULTS.get(said or "", "") if page.add_action else ""))

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
        if confirmed.operation is REMOVE_OWNER:
            uid = uid_of(form.get("uid") or "")
            if uid is None or all(one.uid != uid for one in held.team):
                raise page_not_found()
            facts += [names.get(uid, ""), f"uid {uid}"]
        elif carries is not None:
            wanted = form.get(carries[0]) or ""
            if all(each.id != wanted for each in client.live_secrets(request.now)):
                raise page_not_found()
            facts.append(wanted)
        return Subject(
            client_address(client.id),
            client.name or client.id,
            tuple(facts),
            Impact(people=held.people, authorizations=held.authorizations),
            {"others_live": _USUAL_END},
        )

    async def _look(self, request: AdminRequest) -> tuple[ClientWithUses, dict[int, str]]:
        client_id, actor, now = named(request), request.actor, request.now

        def read_state(tx: Transaction) -> tuple[ClientWithUses, dict[int, str]]:
            held = clients.find_details(tx, actor, client_id, now)
            users = [(one.uid, tx.users.find(one.uid)) for one in held.team]
            return held, {uid: user.username for uid, user in users if user is not None}

        return await self.services.store.scan(read_state)


def _address(request: AdminRequest) -> str:
    return client_address(named(request))


def named(request: AdminRequest) -> str:
    """Return the client id in the path. Raises Refused (not found) for other text."""
    # Generated ids need no encoding in a URL; ids chosen by operators may.
    name = unquote_to_bytes(request.arguments["client_id"]).decode("latin-1")
    if len(name) > _LONGEST_ID or not name.isascii() or not name.isprintable():
        raise no_such_client()
    return name


def secret_lines(
    secrets: Sequence[ClientSecret], end_url: str, now: Instant
) -> tuple[ClientSecretLine, ...]:
    """Return the lines of these secrets; an empty `end_url` hides the Revoke buttons."""
    return tuple(
        ClientSecretLine(
            secret.id,
            with_query(end_url, {"secret": secret.id}) if end_url else "",
            None if secret.expires_at is None else When(secret.expires_at, now),
        )
        for secret in secrets
    )


def _page(
    held: ClientWithUses,
    names: dict[int, str],
    request: AdminRequest,
    done: str,
    links: Sequence[ObjectLink],
) -> ClientPage:
    client, now = held.client, request.now
    may = request.permissions.allow(Permission.CLIENTS) and client.id != RESOURCE_SERVER
    offers = _BUTTONS.offers(client, request.permissions, client_address(client.id))
    return ClientPage(
        row=ClientRow(
            name=client.name or client.id,
            client_id=client.id,
            url=client_address(client.id),
            type=client.type.value,
            profile=client.profile_name.value,
            since=When(client.created_at, now),
            disabled=client.disabled_at is not None,
            verified=client.verified_at is not None,
            self_registered=client.self_registered,
            legacy=any(client.may_use(each) for each in DISCOURAGED),
        ),
        description=client.description,
        needs_pkce=client.needs_pkce,
        facts=tuple(_facts(client)),
        changed=When(client.changed_at, now),
        verified_since=None if client.verified_at is None else When(client.verified_at, now),
        disabled_since=None if client.disabled_at is None else When(client.disabled_at, now),
        team=tuple(
            _member(one, names, client_address(client.id, "remove-owner") if may else "")
            for one in held.team
        ),
        secrets=secret_lines(
            client.live_secrets(now), client_address(client.id, "end-secret") if may else "", now
        ),
        people=held.people,
        authorizations=held.authorizations,
        seen_in_url=0 if held.sighting is None else held.sighting.requests,
        ways=offers if may else (),
        events_url=with_query(EVENTS, {"client": client.id}),
        links=tuple(link.to(client.id) for link in links if link.path == "/clients/{client_id}"),
        done=done,
        edit_url=client_address(client.id, "edit") if may else "",
        add_action=client_address(client.id, "owners") if may else "",
    )


def _facts(client: Client) -> Iterator[Fact]:
    """Return the fields that have a label and a value."""
    metadata = metadata_of(client)
    for field in FIELDS.values():
        value, kind = field.of(metadata), field.rule.kind
        label = field.rule.label or field.name
        if field.name in _ELSEWHERE or (not field.rule.label and value == field.default):
            continue
        if kind in LISTS:
            yield Fact(label, value)
        elif kind is FieldType.FLAG and value:
            yield Fact(label, (translatable("yes"),), words=True)
        elif value not in ("", (), None, False):
            yield Fact(label, (str(value),))


def _member(one: Membership, names: dict[int, str], remove_url: str) -> TeamLine:
    return TeamLine(
        names.get(one.uid, str(one.uid)),
        one.owns,
        user_address(one.uid),
        with_query(remove_url, {"uid": str(one.uid)}) if remove_url else "",
    )
