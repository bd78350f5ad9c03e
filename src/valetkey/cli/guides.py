"""The page of the documentation that helps with an error of a command."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile
from pathlib import Path

from msgspec import Struct

from valetkey.authorization.site.documentation import address_of, in_checkout
from valetkey.cli import options
from valetkey.cli.catalogue import feature_guides
from valetkey.config.features import feature_sections
from valetkey.config.paths import supervisor_of
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError

_OPERATE = "how-to/operate"
_APPS = "how-to/apps"
_APIS = "how-to/apis"
_USERS = "how-to/people"


class Guide(Struct, frozen=True):
    """A page, and the commands and settings that it explains, each with all that begins with it."""

    page: str
    commands: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


GUIDES = (
    Guide("tutorials/first-server", ("demo",)),
    Guide(f"{_OPERATE}/install", ("init", "serve"), ("authorization.url", "authorization.listen")),
    Guide(
        f"{_OPERATE}/change-without-stopping",
        ("reload", "settings"),
        ("authorization.tls_certificate", "authorization.tls_key", "tls"),
    ),
    Guide(
        f"{_OPERATE}/run-behind-a-proxy",
        (),
        ("authorization.tls_proxy", "authorization.trusted_proxies", "resource.tls_proxy"),
    ),
    Guide(f"{_OPERATE}/keep-objects-in-a-file", ("apply", "export")),
    Guide(
        f"{_OPERATE}/run-it-with-a-team",
        ("user", "owner"),
        ("accounts", "administration"),
    ),
    Guide(f"{_OPERATE}/automate-administration", ("admin-token",)),
    Guide(f"{_OPERATE}/make-it-look-like-yours", ("brand",), ("brand",)),
    Guide(f"{_OPERATE}/send-mail", (), ("mail",)),
    Guide(f"{_OPERATE}/audit-log", ("events",), ("audit", "privacy")),
    Guide(f"{_OPERATE}/monitor", ("doctor",), ("log", "metrics", "traces")),
    Guide(
        f"{_OPERATE}/run-on-postgresql",
        ("database check", "database migrate"),
        ("authorization.database", "resource.database", "database"),
    ),
    Guide(f"{_OPERATE}/move-to-postgresql", ("database",)),
    Guide(
        f"{_OPERATE}/back-up-and-restore",
        ("database backup", "database restore", "key backup", "key restore"),
        ("authorization.keyring",),
    ),
    Guide(f"{_OPERATE}/rotate-keys", ("key",), ("tokens.signing_key_lifetime",)),
    Guide(f"{_OPERATE}/restart", (), ("serving",)),
    Guide(f"{_APPS}/register-a-client", ("client", "login"), ("clients",)),
    Guide(f"{_APPS}/presets", ("client presets",)),
    Guide(f"{_APPS}/read-a-refusal", ("explain",)),
    Guide(f"{_APPS}/let-apps-register-themselves", ("registration",), ("registration",)),
    Guide(f"{_APPS}/let-developers-register", ("registration developer",)),
    Guide(f"{_APIS}/several-apis", ("api",)),
    Guide(f"{_APIS}/declare-an-object", (), ("resource.objects",)),
    Guide(f"{_APIS}/run-without-the-api", (), ("resource.enabled", "resource.scopes")),
    Guide(f"{_USERS}/groups", ("group",)),
    Guide(f"{_USERS}/second-factors", ("user reset-factors",), ("factors", "passwords")),
    *(Guide(page, (command,)) for command, page in feature_guides()),
    *(
        Guide(page, (), (section,))
        for section, kind in feature_sections().items()
        if (page := getattr(kind, "GUIDE", ""))
    ),
)
"""The guide with the longest match is used; the setting of the error comes before the command."""

_SETTINGS = "reference/settings"


def page_of(command: str, setting: str = "") -> str:
    """Return the page for an error about `setting`, or of `command`; "" if there is none."""
    page = _longest(setting, ".", ((guide.settings, guide.page) for guide in GUIDES))
    if page or setting.partition(".")[0] in {*Settings.__dataclass_fields__, *feature_sections()}:
        return page or _SETTINGS
    # None, or the place of an object in a file.
    return _longest(command, " ", ((guide.commands, guide.page) for guide in GUIDES))


def address_for(arguments: Sequence[str], setting: str = "") -> str:
    """Return the address of the page that helps with an error of a command line."""
    page = page_of(" ".join(arguments), setting)
    if not page:
        return ""
    try:
        settings = options.settings_of(_configuration(arguments))
    except OperatorError:
        return in_checkout(page)
    # Its own copy is served only while it runs.
    if settings.docs.url or supervisor_of(settings, settings.authorization):
        return address_of(page, settings.docs.url, settings.authorization.url)
    return in_checkout(page)


def _configuration(arguments: Sequence[str]) -> Path | None:
    after = [*dropwhile(lambda argument: argument != "--config", arguments)][1:2]
    return Path(after[0]) if after else None


def _longest(text: str, mark: str, named: Iterator[tuple[tuple[str, ...], str]]) -> str:
    matches = [
        (len(name), page)
        for names, page in named
        for name in names
        if f"{text}{mark}".startswith(f"{name}{mark}") or text.startswith(f"{name}_")
    ]
    return max(matches, default=(0, ""))[1]
