"""The provider under judgement: both servers, open registration, a person with a full record."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import requests

from tests.openid.relying_party import PASSWORD, REDIRECT_URI, SECONDS, RelyingParty
from valetkey.authorization.features import GRANT_RULES
from valetkey.authorization.model.client import Editor
from valetkey.authorization.model.user import Address, StandardClaims
from valetkey.config.sections.serving import FetchSettings
from valetkey.config.settings import (
    LimitSettings,
    RegistrationMode,
    RegistrationSettings,
    Settings,
    TokenSettings,
)
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.replace import replace
from valetkey.testing.browser import UserAgent
from valetkey.testing.server import Servers

RECORD = StandardClaims(
    given_name="Ada",
    family_name="Lovelace",
    middle_name="King",
    nickname="Countess",
    profile="https://people.example/ada",
    picture="https://people.example/ada.png",
    website="https://ada.example",
    gender="female",
    birthdate="1815-12-10",
    zoneinfo="Europe/London",
    locale="en-GB",
    phone_number="+442071234567",
    phone_number_verified=True,
    address=Address(
        formatted="12 St James's Square\nLondon",
        street_address="12 St James's Square",
        locality="London",
        postal_code="SW1Y 4JH",
        country="GB",
    ),
)
RESPONSE_TYPES = (
    "code",
    "id_token",
    "id_token token",
    "code id_token",
    "code token",
    "code id_token token",
)


@dataclass
class Provider:
    """A running provider, known by its discovery document."""

    servers: Servers

    @property
    def discovered(self) -> Mapping[str, object]:
        """What it says about itself."""
        url = f"{self.servers.auth_url}/.well-known/openid-configuration"
        document: Mapping[str, object] = requests.get(url, timeout=SECONDS).json()
        return document

    def person(self) -> UserAgent:
        """A fresh browser."""
        return UserAgent(self.servers.auth_url)

    def register(
        self, response_type: str = "code", response_mode: str = "", **more: object
    ) -> RelyingParty:
        """A new app, registered through the registration endpoint for this response type."""
        discovered = self.discovered
        grant_types = [
            *(["authorization_code", "refresh_token"] if "code" in response_type.split() else []),
            *(["implicit"] if response_type != "code" else []),
        ]
        metadata = {
            "client_name": "Judge",
            "redirect_uris": [REDIRECT_URI],
            "response_types": [response_type],
            "grant_types": grant_types,
        } | more
        response = requests.post(
            str(discovered["registration_endpoint"]), json=metadata, timeout=SECONDS
        )
        assert response.status_code == requests.codes.created, response.text
        return RelyingParty(discovered, response.json(), response_type, response_mode)


@contextmanager
def provider(directory: Path, database_url: str = "", **more: object) -> Generator[Provider]:
    """Start one; `more` replaces whole groups of settings."""
    settings = Settings(
        tokens=TokenSettings(signing_algorithms=(Algorithm.ES256, Algorithm.RS256)),
        limits=LimitSettings(sign_in_failures=1_000, sign_in_failures_per_address=100_000),
        registration=RegistrationSettings(
            mode=RegistrationMode.OPEN,
            grant_types=tuple(
                name for name, rules in GRANT_RULES.items() if Editor.CLIENT in rules.editors
            ),
            registrations_per_hour=100_000,
        ),
        fetch=FetchSettings(allow=(ip_network("127.0.0.0/8"),)),
    )
    if database_url:
        authorization = replace(settings.authorization, database=database_url)
        settings = replace(settings, authorization=authorization)
    settings = replace(settings, **more)  # type: ignore[arg-type]
    with Servers(directory, settings=settings, with_resource=False) as servers:
        ada = servers.register_user("ada", PASSWORD, name="Ada King Lovelace")
        whole = replace(ada, claims=RECORD, email_verified_at=servers.clock.now())
        assert servers.write(lambda tx: tx.users.change(whole))
        yield Provider(servers)
