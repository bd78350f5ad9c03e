"""GET, PUT and DELETE of a registration by the client (RFC 7592 section 2)."""

from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.actions.registrations import Registered, SelfRegistrar, refuse_token
from valetkey.authorization.actions.sectors import Sectors
from valetkey.authorization.endpoints.registration.answer import (
    RegistrationAnswers,
    bearer,
    read_members,
)
from valetkey.authorization.endpoints.registration.register import count_attempt_to_register, draw
from valetkey.authorization.model.event.actor import by_client
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.register.self_registration import refuse_registration
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import Prefix, well_formed
from valetkey.web.exchange import Request, Response
from valetkey.web.rate_limit import Buckets


@dataclass(frozen=True, slots=True)
class ManageEndpoint:
    """For the holder of this client's registration access token."""

    store: Store
    registrar: SelfRegistrar
    sectors: Sectors
    tries: Buckets
    answers: RegistrationAnswers
    random: Callable[[int], bytes]

    async def read(self, request: Request) -> Response:
        """GET: return the registration."""
        try:
            token = _token(request)
            client = await self._find(request, token)
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)
        return self.answers.told(Registered(client, None), token, 200)

    async def replace(self, request: Request) -> Response:
        """PUT: replace the registration."""
        try:
            return await self._replace(request, _token(request))
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)

    async def remove(self, request: Request) -> Response:
        """DELETE: 204; everything the client was issued ends."""
        client_id = request.arguments["client_id"]
        try:
            token = _token(request)

            def remove_client(tx: Transaction) -> None:
                client = self.registrar.prove(tx, client_id, token, to_change=True)
                self.registrar.remove(tx, client, request.at)

            await self.store.write(remove_client, done_by=by_client(client_id))
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)
        return self.answers.gone()

    async def _replace(self, request: Request, token: str) -> Response:
        client_id, now = request.arguments["client_id"], request.at
        client = await self._find(request, token)
        members = read_members(request)
        said = await self.store.read(lambda tx: self.registrar.without_apis(tx, members))
        # Fetched before the transaction, which must not wait for other servers.
        metadata = self.registrar.read(said, client)
        if metadata.openid.sector_identifier_uri:
            # It makes this server fetch from another, so it counts against the limit of
            # registrations.
            count_attempt_to_register(self.tries, request)
        if faults := await self.sectors.faults(metadata):
            refuse_registration(faults)
        fresh = draw(self.random)

        def change_client(tx: Transaction) -> Registered:
            current = self.registrar.prove(tx, client_id, token, to_change=True)
            return self.registrar.change(tx, current, said, fresh, now)

        registered = await self.store.write(change_client, done_by=by_client(client_id))
        return self.answers.told(registered, token, 200)

    async def _find(self, request: Request, token: str) -> Client:
        client_id = request.arguments["client_id"]
        return await self.store.read(
            lambda tx: self.registrar.prove(tx, client_id, token, to_change=False)
        )


def _token(request: Request) -> str:
    token = bearer(request)
    if not well_formed(Prefix.REGISTRATION, token):
        refuse_token("registration.token", "the token of this registration")
    return token
