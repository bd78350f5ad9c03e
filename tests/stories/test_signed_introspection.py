"""The SDK asks our own server for signed answers about tokens, and takes no others."""

import asyncio
from pathlib import Path

import pytest
import requests

from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.config.paths import credential_path
from valetkey.kernel.moment import later, seconds
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret
from valetkey.sdk import Credential, Issuer, Protection
from valetkey.testing.server import Servers

_SECRET = "a secret that is long enough for a client"


def test_reference_token_is_validated_by_signed_introspection(tmp_path: Path) -> None:
    with Servers(tmp_path, with_resource=False) as servers:
        robot = ClientMetadata(
            "Robot", grant_types=("client_credentials",), access_token_format="reference"
        )
        servers.register_client(robot, "robot", _SECRET)
        token = requests.post(
            f"{servers.auth_url}/token",
            data={"grant_type": "client_credentials"},
            auth=("robot", _SECRET),
            timeout=60,
        ).json()["access_token"]
        secret = Secret(credential_path(servers.settings).read_text().strip())

        def revoke() -> None:
            requests.post(
                f"{servers.auth_url}/oauth/revoke",
                data={"token": token},
                auth=("robot", _SECRET),
                timeout=60,
            )

        async def story() -> None:
            async with Protection(
                Issuer.valetkey(servers.auth_url, signed_introspection=True),
                audience=servers.api_url,
                credential=Credential("resource-server", secret),
                remembered=seconds(1),
            ) as protection:
                now = SYSTEM.now()
                caller = await protection.admit([f"Bearer {token}"], now, "client:read")
                assert (caller.client_id, caller.user) == ("robot", None)
                await asyncio.to_thread(revoke)
                with pytest.raises(Refused, match="invalid_token"):
                    await protection.admit([f"Bearer {token}"], later(now, seconds(2)))

        asyncio.run(story())
