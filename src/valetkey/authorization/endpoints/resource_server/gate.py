"""Authentication of the resource server by HTTP Basic."""

from msgspec import Struct

from valetkey.authorization.client_authentication.method import not_proven
from valetkey.authorization.endpoints.client.request import (
    ClientRequest,
    ClientRequestAuthentication,
)
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import RESOURCE_SERVER
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.kernel.refusal import Refused
from valetkey.web.exchange import Request
from valetkey.web.form import Form


class ResourceServerAuthentication(Struct, frozen=True):
    """Admits only the resource server, or also the credentials of declared APIs."""

    door: ClientRequestAuthentication
    apis: ApiDirectory

    async def api(self, request: Request) -> Api:
        """Return the API that sent the request. Refused with `invalid_client` for other clients."""
        proven = await self.door.prove(request, ClientRequest(Form({}), in_query=False))
        api = await self.apis.of_credential(proven.client)
        if api is None:
            raise Refused(not_proven("resource_server", "an API", "another client"))
        return api

    async def require(self, request: Request) -> None:
        """Refused with `invalid_client` unless the resource server sent the request."""
        proven = await self.door.prove(request, ClientRequest(Form({}), in_query=False))
        if proven.client.id != RESOURCE_SERVER:
            raise Refused(not_proven("resource_server", RESOURCE_SERVER, "another client"))
