"""A world where anybody may register an application."""

from collections.abc import Iterator

import pytest

from tests.attacks.registration.applicant import Applicant
from valetkey.config.settings import RegistrationMode, RegistrationSettings, Settings
from valetkey.kernel.replace import replace
from valetkey.testing.server import Servers


@pytest.fixture(scope="module")
def anybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applicant]:
    """Registration is open; it may give everything that it can."""
    with Servers(tmp_path_factory.mktemp("open"), settings=_settings("open")) as servers:
        yield Applicant(servers)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applicant]:
    """Registration is as it comes: off."""
    with Servers(tmp_path_factory.mktemp("off"), with_resource=False) as servers:
        yield Applicant(servers)


def _settings(mode: str) -> Settings:
    registration = RegistrationSettings(
        mode=RegistrationMode(mode),
        grant_types=("authorization_code", "refresh_token", "implicit", "client_credentials"),
        scopes=("notes:read",),
        registrations_per_hour=100_000,
    )
    return replace(Settings(), registration=registration)
