"""Sector identifiers: whether the site lists the app's redirect URIs (OpenID Registration 5)."""

from typing import cast

from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.refusal import Refused
from valetkey.web.body import read_json

_OK = 200
_NO_LIST = MetadataError(
    "sector_identifier_uri", "an address that answers with a JSON array of addresses"
)
_NOT_LISTED = MetadataError(
    "sector_identifier_uri", "a list with every redirect URI of the client in it"
)
Faults = tuple[MetadataError, ...]


def affects_sector(metadata: ClientMetadata, before: Client | None) -> bool:
    """Return whether a sector has to list redirect URIs that it did not list for the client."""
    uri = metadata.openid.sector_identifier_uri
    if not uri:
        return False
    if before is None or before.openid.sector_identifier_uri != uri:
        return True
    return not set(metadata.redirect_uris) <= set(before.redirect_uris)


class Sectors(Struct, frozen=True):
    """Fetch sector identifier documents."""

    http: OutboundHttp

    async def faults_within(
        self, rules: ClientRules, metadata: ClientMetadata, before: Client | None
    ) -> Faults:
        """Return the errors of the sector identifier of a client that is registered or changed.

        Call it before the transaction, which must not wait for another server. Nothing is fetched
        if the client keeps its sector and has no new redirect URI, or if the rules refuse it.
        """
        # Scopes of declared APIs are judged by the transaction, and allow no address.
        others = (each for each in rules.faults(metadata) if not each.field.startswith("scopes"))
        if not affects_sector(metadata, before) or any(others):
            return ()
        return await self.faults(metadata)

    async def faults(self, metadata: ClientMetadata) -> Faults:
        """Return the errors of the client's sector identifier; nothing for a client without one.

        The caller has checked that the URL may be fetched.
        """
        uri = metadata.openid.sector_identifier_uri
        if not uri:
            return ()
        try:
            fetched = await self.http.get(uri)
            listed = read_json(fetched.body) if fetched.status == _OK else None
        except (Unfetchable, Refused):
            return (_NO_LIST,)
        if not isinstance(listed, list):
            return (_NO_LIST,)
        known = {item for item in cast("list[object]", listed) if isinstance(item, str)}
        return () if known.issuperset(metadata.redirect_uris) else (_NOT_LISTED,)
