"""Sectors: whether the site that apps name as theirs knows them (OpenID Registration section 5)."""

from dataclasses import dataclass
from typing import cast

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, MetadataError
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.refusal import Refused
from valetkey.web.json_body import read_json

_OK = 200
_NO_LIST = MetadataError(
    "sector_identifier_uri", "an address that answers with a JSON array of addresses"
)
_NOT_LISTED = MetadataError(
    "sector_identifier_uri", "a list with every redirect URI of the client in it"
)


@dataclass(frozen=True, slots=True)
class Sectors:
    """Fetch sector identifier documents. The caller has checked that the URL may be fetched."""

    door: OutboundHttp

    async def faults(self, metadata: ClientMetadata) -> tuple[MetadataError, ...]:
        """Return the errors of the client's sector identifier; nothing for a client without one."""
        uri = metadata.openid.sector_identifier_uri
        if not uri:
            return ()
        try:
            fetched = await self.door.get(uri)
            listed = read_json(fetched.body) if fetched.status == _OK else None
        except (Unfetchable, Refused):
            return (_NO_LIST,)
        if not isinstance(listed, list):
            return (_NO_LIST,)
        known = {item for item in cast("list[object]", listed) if isinstance(item, str)}
        return () if known.issuperset(metadata.redirect_uris) else (_NOT_LISTED,)
