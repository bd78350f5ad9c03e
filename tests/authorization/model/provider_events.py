"""A sign-in provider from its creation to its end, and a changed setting."""

from tests.support.harness import Harness
from valetkey.authorization.operations.settings import CHANGE_SETTING, SettingWanted
from valetkey.authorization.providers.model import ProviderWanted
from valetkey.authorization.providers.operations import (
    CHANGE_PROVIDER,
    CREATE_PROVIDER,
    DELETE_PROVIDER,
    DISABLE_PROVIDER,
    ENABLE_PROVIDER,
    ProviderChange,
)


async def providers(it: Harness, secrets: set[str]) -> None:
    """Everything that happens to a provider; `secrets` gathers the secrets."""
    provider = ProviderWanted("google", "Google", "us", "a client secret", "https://id.example")
    await it.perform(CREATE_PROVIDER, {}, provider)
    change = ProviderChange(client_secret="another client secret")
    secrets |= {"a client secret", "another client secret"}
    one = {"provider": "google"}
    await it.perform(CHANGE_PROVIDER, one, change)
    await it.perform(DISABLE_PROVIDER, one)
    await it.perform(ENABLE_PROVIDER, one)
    await it.perform(DELETE_PROVIDER, one)
    await it.perform(CHANGE_SETTING, {"setting": "registration.mode"}, SettingWanted("open"))
