"""/admin/clients/{client_id}: one app, the questions before what is done with it, and the doing."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from valetkey.authorization.deeds.admin.permissions import Actor, Permission, powers_of
from valetkey.authorization.deeds.admin.things import clients
from valetkey.authorization.deeds.admin.things.clients import ClientDesk, Held, no_such_client
from valetkey.authorization.deeds.clients import TOO_MANY_SECRETS, Registrar
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit
from valetkey.authorization.endpoints.admin.people.addresses import user_address
from valetkey.authorization.endpoints.admin.things.addresses import (
    CLIENTS,
    EVENTS,
    client_address,
    with_query,
)
from valetkey.authorization.endpoints.admin.visit import (
    actor_of,
    administered,
    administered_form,
    nothing_here,
)
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client, GrantTypeName
from valetkey.authorization.model.register.membership import Membership
from valetkey.authorization.pages.admin.things.register.client import (
    ActWay,
    ClientAct,
    ClientAskPage,
    ClientPage,
    SecretLine,
    SecretPage,
    TeamLine,
)
from valetkey.authorization.pages.admin.things.register.clients import ClientRow
from valetkey.authorization.protocol.register.client_metadata import Fault
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.secret import Prefix, fresh_secret
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_STEPPED_UP = frozenset(
    {
        ClientAct.SECRET,
        ClientAct.END_SECRET,
        ClientAct.ALLOW_IMPLICIT,
        ClientAct.ALLOW_PASSWORD,
        ClientAct.DELETE,
    }
)
"""What needs a proof of a moment ago."""

_GRANTS = {
    ClientAct.ALLOW_IMPLICIT: (GrantTypeName.IMPLICIT, True),
    ClientAct.END_IMPLICIT: (GrantTypeName.IMPLICIT, False),
    ClientAct.ALLOW_PASSWORD: (GrantTypeName.PASSWORD, True),
    ClientAct.END_PASSWORD: (GrantTypeName.PASSWORD, False),
}
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
class ClientEndpoint:
    """One app."""

    site: Site
    registrar: Registrar

    async def get(self, request: Request) -> Response:
        """Everything about it but its secrets."""
        seen = await administered(self.site, request)
        if isinstance(seen, Response):
            return seen
        held, names = await self._look(request, actor_of(seen))
        done = read_query(request.query).get("done") or ""
        role = seen.signed_in.user.role
        may = powers_of(role).allow(Permission.CLIENTS) and held.client.id != RESOURCE_SERVER
        page = _page(held, names, request.at, may=may, done=done if done in set(ClientAct) else "")
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The question before something is done with it."""
        act = _act(request)
        seen = await administered(self.site, request, Permission.CLIENTS)
        if isinstance(seen, Response):
            return seen
        secret = read_query(request.query).get("secret") or ""
        place = with_query(request.path, {"secret": secret})
        if act in _STEPPED_UP and (asked := await stepped_up(self.site, request, seen, place)):
            return asked
        return await self._asked(request, seen, act, secret)

    async def do(self, request: Request) -> Response:
        """Do it, and show the app again."""
        act = _act(request)
        found = await administered_form(self.site, request, Permission.CLIENTS)
        if isinstance(found, Response):
            return found
        seen, form = found
        if act in _STEPPED_UP and (asked := await stepped_up(self.site, request, seen)):
            return asked
        if act is ClientAct.SECRET:
            return await self._issue(request, seen, form)
        actor, client_id, now = actor_of(seen), _named(request), request.at
        secret = form.get("secret") or ""

        def work(tx: Transaction) -> tuple[Fault, ...]:
            return self._act(tx, actor, client_id, act, secret, now)

        if await self.site.store.write(work, done_by=actor.done_by):
            return await self._asked(request, seen, act, secret, _REFUSED)
        if act is ClientAct.DELETE:
            return self.site.goes_to(f"{CLIENTS}?deleted=1")
        return self.site.goes_to(f"{client_address(client_id)}?done={act.value}")

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
        if act in _GRANTS:
            grant_type, on = _GRANTS[act]
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

    async def _issue(self, request: Request, seen: Visit, form: Form) -> Response:
        actor, client_id, now = actor_of(seen), _named(request), request.at
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
            return await self._asked(request, seen, ClientAct.SECRET, "", fault)
        held, _ = await self._look(request, actor)
        page = SecretPage(
            back=client_address(client_id),
            name=held.client.name or client_id,
            client_id=client_id,
            secret=secret.reveal(),
            others_end=live is not None and len(_working(held.client, now)) > 1,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def _asked(
        self, request: Request, seen: Visit, act: ClientAct, secret: str, fault: str = ""
    ) -> Response:
        held, _ = await self._look(request, actor_of(seen))
        ends = secret if act is ClientAct.END_SECRET else ""
        if ends and all(each.id != ends for each in _working(held.client, request.at)):
            raise nothing_here()
        page = ClientAskPage(
            action=client_address(held.client.id, act.value),
            back=client_address(held.client.id),
            csrf=seen.csrf,
            act=act,
            name=held.client.name or held.client.id,
            client_id=held.client.id,
            people=held.people,
            authorizations=held.authorizations,
            secret_id=ends,
            fault=fault,
        )
        status = _BAD_REQUEST if fault else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)

    async def _look(self, request: Request, actor: Actor) -> tuple[Held, dict[int, str]]:
        client_id, now = _named(request), request.at

        def work(tx: Transaction) -> tuple[Held, dict[int, str]]:
            held = clients.look(tx, actor, client_id, now)
            people = [(one.uid, tx.users.find(one.uid)) for one in held.team]
            return held, {uid: user.username for uid, user in people if user is not None}

        return await self.site.store.scan(work)


def _act(request: Request) -> ClientAct:
    said = request.arguments["act"]
    if said not in set(ClientAct):
        raise nothing_here()
    return ClientAct(said)


def _named(request: Request) -> str:
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
