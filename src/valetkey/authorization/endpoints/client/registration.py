"""POST /oauth/register: dynamic client registration (RFC 7591 section 3)."""

from collections.abc import Callable
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.clients import Sectors, metadata_of
from valetkey.authorization.actions.registrations import (
    REGISTRATION_WINDOW,
    FreshRegistration,
    SelfRegistrar,
    StoredRegistration,
    invitation_fingerprint,
    refuse_token,
)
from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import ANONYMOUS, by_client
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.self_registration import members, refuse_registration
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import RegistrationMode
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import (
    Fingerprint,
    FingerprintKey,
    Prefix,
    fresh_id,
    fresh_secret,
    well_formed,
)
from valetkey.web.body import read_json
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.security_headers import ANY_ORIGIN


class RegistrationAnswers(Struct, frozen=True):
    """Registration responses and refusals; never cached."""

    issuer: str
    refusal: ClientRefusal

    def registration_response(
        self, registered: StoredRegistration, token: str, status: int
    ) -> Response:
        """Return the stored record with all defaults, and secrets for its owner."""
        client = registered.client
        record: dict[str, object] = {
            "client_id": client.id,
            "client_id_issued_at": client.created_at,
            **dict(members(metadata_of(client))),
            "registration_client_uri": f"{self.issuer}/oauth/register/{client.id}",
            "registration_access_token": token,
        }
        if registered.secret is not None:
            record["client_secret"] = registered.secret.reveal()
        if client.has_secret:
            record["client_secret_expires_at"] = 0
        headers = (("cache-control", "no-store"), ("pragma", "no-cache"), *ANY_ORIGIN)
        return json_response(record, status, headers)

    def gone(self) -> Response:
        """Return the response to a deletion."""
        return Response(204, b"", (("cache-control", "no-store"), *ANY_ORIGIN))

    def refuse(self, request: Request, refusal: Refusal, client_id: str | None = None) -> Response:
        """Return the response to a refused request; its record names `client_id`, if known."""
        return self.refusal(request, refusal, client_id)


def read_members(request: Request) -> dict[str, object]:
    """Return the members of the body; Refused unless it is a JSON object."""
    try:
        value = read_json(request.body)
    except Refused as refused:
        refuse_registration([MetadataError("the request", refused.refusal.description)])
    if not isinstance(value, dict):
        refuse_registration([MetadataError("the request", "the body must be a JSON object")])
    return cast("dict[str, object]", value)


class RegistrationLimit(Struct, frozen=True):
    """Limits registrations by network, over all processes: those that no user signs in to."""

    store: Store
    fingerprints: FingerprintKey
    per_hour: int

    async def count(self, request: Request) -> str:
        """Count an attempt and return its rate limit; Refused with `slow_down` after too many."""
        fingerprint = self.fingerprints.fingerprint("throttle", network_of(request.address))
        bucket, limit = f"register_from:{fingerprint}", Limit(self.per_hour, REGISTRATION_WINDOW)
        # On its own, before the request makes this server fetch from others.
        if wait := await self.store.write(
            lambda tx: tx.throttles.begin(bucket, limit, request.at), done_by=ANONYMOUS
        ):
            raise Refused.because(
                ErrorCode.SLOW_DOWN,
                "too many apps were registered from this network that no user signed in to; wait "
                "for the time in Retry-After, and keep the client_id of an app instead of "
                "registering it again",
                "registration.rate",
                f"at most {limit.attempts}",
                "more",
                retry_after=wait,
            )
        return bucket


class RegisterEndpoint(Struct, frozen=True):
    """Registers clients as the operator's registration mode and rate limits allow."""

    store: Store
    registrar: SelfRegistrar
    sectors: Sectors
    mode: str
    limit: RegistrationLimit
    answers: RegistrationAnswers
    random: Callable[[int], bytes]

    async def __call__(self, request: Request) -> Response:
        """Return 201 with the registration once it is committed."""
        try:
            return await self._register(request)
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)

    async def _register(self, request: Request) -> Response:
        now = request.at
        # First: strangers without a token must not use up the limit of those who have one.
        invitation = await self._invitation(request)
        counted = await self.limit.count(request)
        metadata = self.registrar.read(read_members(request))
        if faults := await self.sectors.faults(metadata):
            refuse_registration(faults)
        fresh = draw(self.random)

        def register_client(tx: Transaction) -> StoredRegistration:
            tx.clients.hold_all()
            if invitation is not None and not tx.invitations.spend(invitation, now):
                refuse_token("registration.spent", "an initial access token with a use left")
            if invitation is None:
                return self.registrar.register(tx, metadata, fresh, now, counted)
            registered = self.registrar.register(tx, metadata, fresh, now)
            tx.throttles.cancel(counted)
            return registered

        registered = await self.store.write(register_client, done_by=ANONYMOUS)
        return self.answers.registration_response(registered, fresh.token.reveal(), 201)

    async def _invitation(self, request: Request) -> Fingerprint | None:
        """Return the initial access token to spend; None if registration is open."""
        if self.mode == RegistrationMode.OPEN:
            return None
        token = request.bearer_token
        if self.mode != RegistrationMode.TOKEN or not well_formed(Prefix.INVITATION, token):
            refuse_token("registration.closed", "an initial access token")
        print_ = invitation_fingerprint(self.registrar.fingerprints, token)
        # Unauthorized callers learn nothing about their metadata and cause no fetches.
        if not await self.store.read(lambda tx: tx.invitations.is_live(print_, request.at)):
            refuse_token("registration.unknown", "an initial access token with a use left")
        return print_


def draw(random: Callable[[int], bytes]) -> FreshRegistration:
    """Generate the random values of one registration."""
    return FreshRegistration(
        fresh_id("client", random),
        fresh_secret(Prefix.CLIENT_SECRET, random),
        fresh_secret(Prefix.REGISTRATION, random),
    )


class ManageEndpoint(Struct, frozen=True):
    """Lets the holder of a registration access token manage the client (RFC 7592)."""

    store: Store
    registrar: SelfRegistrar
    sectors: Sectors
    limit: RegistrationLimit
    answers: RegistrationAnswers
    random: Callable[[int], bytes]

    async def read(self, request: Request) -> Response:
        """Handle GET: return the registration."""
        try:
            token = _token(request)
            client = await self._find(request, token)
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)
        return self.answers.registration_response(StoredRegistration(client, None), token, 200)

    async def replace(self, request: Request) -> Response:
        """Handle PUT: replace the registration."""
        try:
            return await self._replace(request, _token(request))
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)

    async def remove(self, request: Request) -> Response:
        """Handle DELETE: return 204; everything issued to the client ends."""
        client_id = request.arguments["client_id"]
        try:
            token = _token(request)

            def remove_client(tx: Transaction) -> None:
                client = self.registrar.authenticate(tx, client_id, token, to_change=True)
                self.registrar.remove(tx, client, request.at)

            await self.store.write(remove_client, done_by=by_client(client_id))
        except Refused as refused:
            return self.answers.refuse(request, refused.refusal)
        return self.answers.gone()

    async def _replace(self, request: Request, token: str) -> Response:
        client_id, now = request.arguments["client_id"], request.at
        client = await self._find(request, token)
        members = read_members(request)
        # Fetched before the transaction, which must not wait for other servers.
        metadata = self.registrar.read(members, client)
        if metadata.openid.sector_identifier_uri:
            # It makes this server fetch from another, so it counts against the limit of
            # registrations.
            await self.limit.count(request)
        if faults := await self.sectors.faults(metadata):
            refuse_registration(faults)
        fresh = draw(self.random)

        def change_client(tx: Transaction) -> StoredRegistration:
            current = self.registrar.authenticate(tx, client_id, token, to_change=True)
            return self.registrar.change(tx, current, members, fresh, now)

        registered = await self.store.write(change_client, done_by=by_client(client_id))
        return self.answers.registration_response(registered, token, 200)

    async def _find(self, request: Request, token: str) -> Client:
        client_id = request.arguments["client_id"]
        return await self.store.read(
            lambda tx: self.registrar.authenticate(tx, client_id, token, to_change=False)
        )


def _token(request: Request) -> str:
    token = request.bearer_token
    if not well_formed(Prefix.REGISTRATION, token):
        refuse_token("registration.token", "the token of this registration")
    return token
