"""The configured upstream providers, in the order of the settings."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from valetkey.authorization.authentication.federation.github import GitHubProvider
from valetkey.authorization.authentication.federation.openid import OpenIdProvider
from valetkey.authorization.authentication.federation.provider import Provider, ProviderConnection
from valetkey.config.sections.federation import ProviderKind
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret

_KINDS: dict[ProviderKind, Callable[[ProviderConnection], Provider]] = {
    ProviderKind.OPENID: OpenIdProvider,
    ProviderKind.GITHUB: GitHubProvider,
}


class Providers(Struct, frozen=True):
    """The servers at which users may sign in."""

    all: tuple[Provider, ...] = ()

    def find(self, id: str) -> Provider | None:
        """Return the provider with this id."""
        return next((each for each in self.all if each.settings.id == id), None)

    def of_issuer(self, issuer: str) -> Provider | None:
        """Return the provider for identities of this issuer."""
        return next((each for each in self.all if each.settings.issuer == issuer), None)

    def __iter__(self) -> Iterator[Provider]:
        """Iterate over the providers."""
        return iter(self.all)


def providers(settings: Settings, http: OutboundHttp, now: Callable[[], Instant]) -> Providers:
    """Return the configured providers. Raises OperatorError for one without a secret."""
    told = _by_environment(settings)
    lines = [
        ProviderConnection(each, _secret(settings, each.id, each.secret_file, told), http, now)
        for each in settings.federation.providers
    ]
    if unknown := told.keys() - {line.settings.id for line in lines}:
        raise OperatorError(f'no provider is called "{min(unknown)}"', "federation.secrets")
    return Providers(tuple(_KINDS[line.settings.kind](line) for line in lines))


def _by_environment(settings: Settings) -> dict[str, str]:
    text = settings.federation.secrets
    if text is None:
        return {}
    pairs = [pair.partition("=") for pair in text.reveal().split(",")]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise OperatorError(
            "write id=secret for each, with commas between them", "federation.secrets"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _secret(settings: Settings, id: str, file: str, told: dict[str, str]) -> Secret:
    if id in told:
        return Secret(told[id])
    if not file:
        message = f'"{id}" has no secret: name its secret_file'
        raise OperatorError(message, "federation.providers")
    path = settings.source.directory / file
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise OperatorError(f"{path} cannot be read", "federation.providers") from None
    if not text or not text.isascii() or not text.isprintable():
        raise OperatorError(f"{path} does not hold a secret", "federation.providers")
    return Secret(text)
