"""/admin/clients/{client_id}: one app, the questions before what is done with it, and the doing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote_to_bytes

from valetkey.authorization.deeds.admin import clients
from valetkey.authorization.deeds.admin.clients import ClientDesk, Held, no_such_client
from valetkey.authorization.deeds.admin.permissions import Actor, Permission
from valetkey.authorization.deeds.clients import TOO_MANY_SECRETS, Registrar
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client, GrantTypeName
from valetkey.authorization.model.register.membership import Membership
from valetkey.authorization.protocol.register.client_metadata import Fault
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    administrator_for,
    nothing_here,
    with_query,
)
from valetkey.authorization.site.admin.clients.acts import GRANTS, RECENT, ClientAct
from valetkey.authorization.site.admin.clients.clients import CLIENTS, ClientRow, client_address
from valetkey.authorization.site.admin.events import EVENTS
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request
from valetkey.web.form import Form, read_query

CLIENT = "/admin/clients/{client_id}"
ACT = "/admin/clients/{client_id}/{act}"


@dataclass(frozen=True, slots=True)
class SecretLine:
    """One of its secrets; `end_url` is the question before it ends."""

    id: str
    end_url: str
    ends: str = ""


@dataclass(frozen=True, slots=True)
class TeamLine:
    """Somebody in its team."""

    name: str
    owns: bool
    url: str


@dataclass(frozen=True, slots=True)
class ActWay:
    """Something that can be done, and the address of its question."""

    act: ClientAct
    url: str


@dataclass(frozen=True, slots=True)
class ClientPage:
    """Everything about one app but its secrets."""

    template: ClassVar[str] = "admin/clients/client.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    row: ClientRow
    description: str
    application_type: str
    authentication: str
    token_format: str
    needs_pkce: bool
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    scopes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    changed: When
    verified_since: When | None
    disabled_since: When | None
    team: tuple[TeamLine, ...]
    secrets: tuple[SecretLine, ...]
    people: int
    authorizations: int
    seen_in_url: int
    ways: tuple[ActWay, ...]
    events_url: str
    #: What was just done; "" for nothing.
    done: str = ""


@dataclass(frozen=True, slots=True)
class ClientAskPage:
    """The question before something is done with an app, and what it ends."""

    template: ClassVar[str] = "admin/clients/ask.html"

    action: str
    back: str
    csrf: str
    act: ClientAct
    name: str
    client_id: str
    people: int = 0
    authorizations: int = 0
    secret_id: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SecretPage:
    """A secret that was made just now, shown this once."""

    template: ClassVar[str] = "admin/clients/secret.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    back: str
    name: str
    client_id: str
    secret: str
    others_end: bool


_LIFETIMES = ("", "0", "86400", "604800")
_LONGEST_ID = 100
_BAD_REQUEST = 400
_REFUSED = translatable(
    "This app cannot have it: the grants of old need the profile classic, password a confidential "
    "app, and one grant has to be left."
)
_TOO_MANY = translatable(
    "Two secrets of this app work already. End one of them first, or let the others end at once."
)
_NO_SECRET = translatable("This app does not show who it is by a secret.")


@dataclass(frozen=True, slots=True)
class ClientPages:
    """One app."""

    site: Site
    registrar: Registrar

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """One app, and the confirmation before something is done with it."""
        needed = administrator_for(_needs, _returns_to)
        return (
            Page(CLIENT, administrator(), self.show),
            Page(ACT, needed, self.ask, Act(self.do)),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Everything about it but its secrets."""
        held, names = await self._look(request, request.actor)
        done = request.query.get("done") or ""
        may = request.powers.allow(Permission.CLIENTS) and held.client.id != RESOURCE_SERVER
        page = _page(held, names, request.now, may=may, done=done if done in set(ClientAct) else "")
        return Show(page)

    async def ask(self, request: AdminRequest) -> Outcome:
        """The question before something is done with it."""
        act = _act(request.request)
        secret = request.query.get("secret") or ""
        return await self._asked(request, act, secret)

    async def do(self, request: AdminRequest) -> Outcome:
        """Do it, and show the app again."""
        act = _act(request.request)
        form = request.form
        if act is ClientAct.SECRET:
            return await self._issue(request, form)
        actor, client_id, now = request.actor, _named(request), request.now
        secret = form.get("secret") or ""

        def work(tx: Transaction) -> tuple[Fault, ...]:
            return self._act(tx, actor, client_id, act, secret, now)

        if await self.site.store.write(work, done_by=actor.done_by):
            return await self._asked(request, act, secret, _REFUSED)
        if act is ClientAct.DELETE:
            return SeeOther(f"{CLIENTS}?deleted=1")
        return SeeOther(f"{client_address(client_id)}?done={act.value}")

    def _act(
        self,
        tx: Transaction,
        actor: Actor,
        client_id: str,
        act: ClientAct,
        secret: str,
        now: Instant,
    ) -> tuple[Fault, ...]:
        """What is wrong with doing it. What was so already counts as done."""
        desk = ClientDesk(self.registrar)
        if act in GRANTS:
            grant_type, on = GRANTS[act]
            told = desk.allow(tx, actor, client_id, grant_type, on=on, now=now)
            return told if isinstance(told, tuple) else ()
        if act in {ClientAct.VERIFY, ClientAct.UNVERIFY}:
            desk.verify(tx, actor, client_id, on=act is ClientAct.VERIFY, now=now)
        elif act in {ClientAct.ENABLE, ClientAct.DISABLE}:
            desk.switch(tx, actor, client_id, on=act is ClientAct.ENABLE, now=now)
        elif act is ClientAct.ADOPT:
            desk.adopt(tx, actor, client_id, now)
        elif act is ClientAct.END_SECRET:
            desk.end_secret(tx, actor, client_id, secret, now)
        else:
            desk.delete(tx, actor, client_id, now)
        return ()

    async def _issue(self, request: AdminRequest, form: Form) -> Outcome:
        actor, client_id, now = request.actor, _named(request), request.now
        said = form.get("others") or ""
        if said not in _LIFETIMES:
            raise nothing_here()
        live = Lifetime(int(said)) if said else None
        secret = fresh_secret(Prefix.CLIENT_SECRET, self.site.random)
        desk = ClientDesk(self.registrar)

        def work(tx: Transaction) -> tuple[Fault, ...]:
            return desk.issue_secret(tx, actor, client_id, secret, now, others_live=live)

        if faults := await self.site.store.write(work, done_by=actor.done_by):
            fault = _TOO_MANY if faults[0].detail == TOO_MANY_SECRETS else _NO_SECRET
            return await self._asked(request, ClientAct.SECRET, "", fault)
        held, _ = await self._look(request, actor)
        page = SecretPage(
            back=client_address(client_id),
            name=held.client.name or client_id,
            client_id=client_id,
            secret=secret.reveal(),
            others_end=live is not None and len(_working(held.client, now)) > 1,
        )
        return Show(page)

    async def _asked(
        self, request: AdminRequest, act: ClientAct, secret: str, fault: str = ""
    ) -> Outcome:
        held, _ = await self._look(request, request.actor)
        ends = secret if act is ClientAct.END_SECRET else ""
        if ends and all(each.id != ends for each in _working(held.client, request.now)):
            raise nothing_here()
        page = ClientAskPage(
            action=client_address(held.client.id, act.value),
            back=client_address(held.client.id),
            csrf=request.csrf,
            act=act,
            name=held.client.name or held.client.id,
            client_id=held.client.id,
            people=held.people,
            authorizations=held.authorizations,
            secret_id=ends,
            fault=fault,
        )
        status = _BAD_REQUEST if fault else 200
        return Show(page, status)

    async def _look(self, request: AdminRequest, actor: Actor) -> tuple[Held, dict[int, str]]:
        client_id, now = _named(request), request.now

        def work(tx: Transaction) -> tuple[Held, dict[int, str]]:
            held = clients.look(tx, actor, client_id, now)
            people = [(one.uid, tx.users.find(one.uid)) for one in held.team]
            return held, {uid: user.username for uid, user in people if user is not None}

        return await self.site.store.scan(work)


def _needs(request: Request) -> Permission:
    _act(request)
    return Permission.CLIENTS


def _returns_to(request: Request) -> str | None:
    if _act(request) not in RECENT:
        return None
    secret = read_query(request.query).get("secret") or ""
    return with_query(request.path, {"secret": secret}) if request.method != "POST" else ""


def _act(request: Request) -> ClientAct:
    said = request.arguments["act"]
    if said not in set(ClientAct):
        raise nothing_here()
    return ClientAct(said)


def _named(request: AdminRequest) -> str:
    # Ids are made of what an address shows as it is; operators may choose others.
    name = unquote_to_bytes(request.arguments["client_id"]).decode("latin-1")
    if len(name) > _LONGEST_ID or not name.isascii() or not name.isprintable():
        raise no_such_client()
    return name


def _working(client: Client, now: Instant) -> list[SecretLine]:
    return [
        SecretLine(
            secret.id,
            with_query(
                client_address(client.id, ClientAct.END_SECRET.value), {"secret": secret.id}
            ),
            "" if secret.expires_at is None else When(secret.expires_at, now).exact,
        )
        for secret in client.secrets
        if secret.is_live(now)
    ]


def _page(held: Held, names: dict[int, str], now: Instant, *, may: bool, done: str) -> ClientPage:
    client = held.client
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
            legacy=any(client.may_use(each) for each in clients.LEGACY),
        ),
        description=client.description,
        application_type=client.application_type.value,
        authentication=client.authentication_method.value,
        token_format=client.access_token_format.value,
        needs_pkce=client.needs_pkce,
        redirect_uris=client.redirect_uris,
        grant_types=tuple(sorted(client.grant_types)),
        scopes=client.scope.names,
        links=tuple(
            (word, url)
            for word, url in (
                (translatable("Logo"), client.logo_uri),
                (translatable("Privacy"), client.policy_uri),
                (translatable("Terms of service"), client.tos_uri),
            )
            if url
        ),
        changed=When(client.changed_at, now),
        verified_since=None if client.verified_at is None else When(client.verified_at, now),
        disabled_since=None if client.disabled_at is None else When(client.disabled_at, now),
        team=tuple(_member(one, names) for one in held.team),
        secrets=tuple(
            line if may else SecretLine(line.id, "", line.ends) for line in _working(client, now)
        ),
        people=held.people,
        authorizations=held.authorizations,
        seen_in_url=0 if held.sighting is None else held.sighting.requests,
        ways=tuple(
            ActWay(act, client_address(client.id, act.value)) for act in _acts(client) if may
        ),
        events_url=with_query(EVENTS, {"client": client.id}),
        done=done,
    )


def _member(one: Membership, names: dict[int, str]) -> TeamLine:
    return TeamLine(names.get(one.uid, str(one.uid)), one.owns, user_address(one.uid))


def _acts(client: Client) -> Iterator[ClientAct]:
    yield ClientAct.VERIFY if client.verified_at is None else ClientAct.UNVERIFY
    if client.self_registered:
        yield ClientAct.ADOPT
    if client.has_secret:
        yield ClientAct.SECRET
    if GrantTypeName.IMPLICIT in client.grant_types:
        yield ClientAct.END_IMPLICIT
    elif client.profile.implicit_and_password:
        yield ClientAct.ALLOW_IMPLICIT
    if GrantTypeName.PASSWORD in client.grant_types:
        yield ClientAct.END_PASSWORD
    elif client.profile.implicit_and_password and not client.is_public:
        yield ClientAct.ALLOW_PASSWORD
    yield ClientAct.ENABLE if client.disabled_at is not None else ClientAct.DISABLE
    yield ClientAct.DELETE
