"""Operations on sign-in providers: those of the configuration file are only shown."""

from collections.abc import Callable
from typing import Literal

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Command,
    Done,
    Moment,
    Operation,
    Option,
    Result,
    Run,
    change_of,
    changes_in,
    on,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.providers.model import (
    CHOSEN,
    ProviderChanged,
    ProviderCreated,
    ProviderDisabled,
    ProviderEnabled,
    ProviderRemoved,
    ProviderWanted,
    StoredProvider,
)
from valetkey.authorization.providers.rules.identities import UpstreamState, redirect_uri
from valetkey.authorization.providers.rules.registry import (
    Faults,
    ProviderChanges,
    ProviderFactory,
    disable,
    enable,
    from_settings,
    no_such_provider,
    remove,
)
from valetkey.authorization.providers.settings import (
    FederationSettings,
    ProviderKind,
    ProviderSettings,
)
from valetkey.authorization.providers.storage import StoredProviders
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.text import translatable

ProviderChange = change_of(
    ProviderWanted,
    "ProviderChange",
    "Changes of a sign-in provider; an empty client secret keeps the stored one.",
    CHOSEN,
)


class ProviderShown(msgspec.Struct, frozen=True):
    """A sign-in provider, without its client secret.

    `origin` is `file` for one of the configuration file, which is changed there. `state` is
    `hidden` if the configuration file has one with the same id or issuer, which is used instead.
    """

    id: str
    name: str
    kind: ProviderKind
    issuer: str
    client_id: str
    redirect_uri: str
    scopes: list[str]
    keep_claims: list[str]
    sign_up: bool
    origin: Literal["file", "stored"]
    state: Literal["enabled", "disabled", "hidden"]
    created_at: Moment | None = None


class ProviderList(msgspec.Struct, frozen=True):
    """Sign-in providers: those of the configuration file, then the others, oldest first."""

    items: list[ProviderShown]
    next: str | None = None


class ProviderTested(msgspec.Struct, frozen=True):
    """The result of a test; `check` is the check that failed, `received` what came back."""

    works: bool
    check: str
    received: str


_ALL = "/providers"
ONE = "/providers/{provider}"


def list_providers(tx: Transaction, call: Call) -> Result:
    """List the providers of the configuration file, then the others."""
    federation = call.services.settings.section(FederationSettings)
    of_file = [_of_file(call, provider) for provider in federation.providers]
    return Result(
        ProviderList(
            [*of_file, *(_stored(call, provider) for provider in StoredProviders.of(tx).all())]
        )
    )


def read_provider(tx: Transaction, call: Call) -> Result:
    """Return a provider. Refused: not found."""
    return _result(find_provider(tx, call))


def find_provider(tx: Transaction, call: Call) -> ProviderShown:
    """Return the provider in the path as shown. Raises Refused (not found)."""
    name = call.named("provider")
    for provider in call.services.settings.section(FederationSettings).providers:
        if provider.id == name:
            return _of_file(call, provider)
    stored = StoredProviders.of(tx).find(name)
    if stored is None:
        raise no_such_provider()
    return _stored(call, stored)


def create(tx: Transaction, call: Call) -> Result | Faults:
    """Add a provider."""
    # First: the role is checked with the actor's own account locked.
    StoredProviders.of(tx).take_turn()
    require(tx, call.actor, call.operation.permission)
    made = _changes(call).create(tx, call.input(ProviderWanted), call.now)
    return made if isinstance(made, tuple) else _result(_stored(call, made))


def change(tx: Transaction, call: Call, provider: StoredProvider) -> Result | Faults:
    """Change a provider, if it is still as the caller saw it."""
    call.preconditions.check(tag_of(_stored(call, provider)))
    changes = changes_in(call.input(ProviderChange))
    made = _changes(call).change(tx, provider, changes, call.now)
    return made if isinstance(made, tuple) else _result(_stored(call, made))


async def run_test(call: Call) -> Result:
    """Do what a sign-in does, without a user and with a code that was never issued."""
    factory, name = ProviderFactory.from_services(call.services), call.named("provider")

    def find(tx: Transaction) -> StoredProvider | None:
        require(tx, call.actor, call.operation.permission)
        return StoredProviders.of(tx).find(name)

    stored = await call.services.store.scan(find)
    provider = next(
        (candidate for candidate in factory.of_settings() if candidate.settings.id == name), None
    )
    if provider is None:
        if stored is None:
            raise no_such_provider()
        provider = factory.of_stored(stored)
    if provider is None:
        raise Refused.because(
            ErrorCode.CONFLICT,
            translatable("the client secret cannot be decrypted; enter it again"),
            "provider.unreadable",
        )
    random = call.services.random
    state, nonce, verifier = (to_base64url(random(32)) for _ in range(3))
    try:
        await provider.probe(UpstreamState(state, nonce, verifier, _callback(call, name)))
    except Refused as refused:
        refusal = refused.refusal
        return Result(ProviderTested(works=False, check=refusal.check, received=refusal.received))
    return Result(ProviderTested(works=True, check="", received=""))


def _on_provider(function: Callable[[Transaction, Call, StoredProvider], object]) -> Run:
    def checked(tx: Transaction, call: Call) -> object:
        # First: the role is checked with the actor's own account locked.
        StoredProviders.of(tx).take_turn()
        require(tx, call.actor, call.operation.permission)
        name = call.named("provider")
        provider = StoredProviders.of(tx).find(name)
        if provider is not None:
            return function(tx, call, provider)
        federation = call.services.settings.section(FederationSettings)
        if any(provider.id == name for provider in federation.providers):
            raise from_settings()
        raise no_such_provider()

    return unchecked_write(checked)


def _changes(call: Call) -> ProviderChanges:
    return ProviderChanges(ProviderFactory.from_services(call.services), call.services.random)


def _callback(call: Call, provider_id: str) -> str:
    return redirect_uri(call.services.settings.authorization.url, provider_id)


def _of_file(call: Call, settings: ProviderSettings) -> ProviderShown:
    return converted(
        ProviderShown,
        settings,
        redirect_uri=_callback(call, settings.id),
        origin="file",
        state="enabled",
        created_at=None,
    )


def _stored(call: Call, provider: StoredProvider) -> ProviderShown:
    state: Literal["enabled", "disabled", "hidden"] = "enabled"
    if ProviderFactory.from_services(call.services).is_hidden(provider):
        state = "hidden"
    elif provider.disabled_at is not None:
        state = "disabled"
    shown = _of_file(call, provider.settings)
    return msgspec.structs.replace(
        shown, origin="stored", state=state, created_at=provider.created_at
    )


def _result(shown: ProviderShown) -> Result:
    return Result(shown, etag=tag_of(shown))


_SECRET_FILE = Option("client_secret", from_file=True)

LIST_PROVIDERS = Operation(
    "list_providers",
    "GET",
    _ALL,
    Permission.READ,
    "List sign-in providers, of the configuration file and of the console",
    reads(list_providers),
    output=ProviderList,
    returns_list=True,
    commands=(
        Command(
            columns=(
                ("ID", "id"),
                ("NAME", "name"),
                ("ISSUER", "issuer"),
                ("ORIGIN", "origin"),
                ("STATE", "state"),
            ),
            empty="There is no sign-in provider.",
        ),
    ),
)

CREATE_PROVIDER = Operation(
    "create_provider",
    "POST",
    _ALL,
    Permission.SETTINGS,
    "Add a sign-in provider",
    unchecked_write(create),
    description="Its button is on the sign-in page within seconds.",
    input=ProviderWanted,
    output=ProviderShown,
    status=201,
    returns_etag=True,
    event=ProviderCreated,
    requires_recent_sign_in=True,
    commands=(
        Command(
            example="google --name Google --issuer https://accounts.google.com "
            "--client-id 1234.apps.googleusercontent.com --client-secret-file google.secret",
            options=(Option("id", argument=True), _SECRET_FILE),
            done="The provider {id} is added. Register this redirect URI there: {redirect_uri}",
        ),
    ),
)

READ_PROVIDER = Operation(
    "read_provider",
    "GET",
    ONE,
    Permission.READ,
    "Show a sign-in provider",
    reads(read_provider),
    output=ProviderShown,
    returns_etag=True,
)

CHANGE_PROVIDER = Operation(
    "change_provider",
    "PATCH",
    ONE,
    Permission.SETTINGS,
    "Change a sign-in provider, or its client secret",
    _on_provider(change),
    description="Its id, kind and issuer cannot change, because linked accounts belong to them.",
    input=ProviderChange,
    output=ProviderShown,
    requires_if_match=True,
    returns_etag=True,
    error_statuses=(409,),
    event=ProviderChanged,
    requires_recent_sign_in=True,
    commands=(
        Command(
            example="--client-secret-file google.secret",
            options=(_SECRET_FILE,),
            done="The provider {id} is changed.",
        ),
    ),
)

DISABLE_PROVIDER = Operation(
    "disable_provider",
    "POST",
    f"{ONE}/disable",
    Permission.SETTINGS,
    "Disable a sign-in provider",
    _on_provider(lambda tx, call, it: disable(tx, it, call.now)),
    output=Done,
    error_statuses=(409,),
    event=ProviderDisabled,
    buttons=(
        Button(
            "disable",
            translatable("Disable provider"),
            translatable(
                "Users cannot sign in with it until you enable it again. Linked accounts stay, and "
                "sessions continue."
            ),
            translatable("The provider is disabled."),
            shown_for=on(ProviderShown, lambda it: it.origin == "stored" and it.state == "enabled"),
            danger=True,
        ),
    ),
    commands=(
        Command(
            question="Disable this sign-in provider? Users cannot sign in with it.",
            done="The provider {provider} is disabled.",
        ),
    ),
)

ENABLE_PROVIDER = Operation(
    "enable_provider",
    "POST",
    f"{ONE}/enable",
    Permission.SETTINGS,
    "Enable a disabled sign-in provider",
    _on_provider(lambda tx, call, it: enable(tx, it, call.now)),
    output=Done,
    error_statuses=(409,),
    event=ProviderEnabled,
    buttons=(
        Button(
            "enable",
            translatable("Enable provider"),
            translatable("Its button is on the sign-in page within seconds."),
            translatable("The provider is enabled."),
            shown_for=on(ProviderShown, lambda it: it.state == "disabled"),
        ),
    ),
    commands=(Command(done="The provider {provider} is enabled."),),
)

DELETE_PROVIDER = Operation(
    "delete_provider",
    "DELETE",
    ONE,
    Permission.SETTINGS,
    "Delete a sign-in provider",
    _on_provider(lambda tx, call, it: remove(tx, it, call.now)),
    description="Linked accounts stay: they work again with a provider of the same issuer.",
    output=Done,
    error_statuses=(409,),
    event=ProviderRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete provider"),
            translatable(
                "Users can no longer sign in with it. Linked accounts stay: they work again if you "
                "add a provider with the same issuer."
            ),
            translatable("The provider is deleted."),
            shown_for=on(ProviderShown, lambda it: it.origin == "stored"),
            danger=True,
        ),
    ),
    commands=(
        Command(
            question="Delete this sign-in provider? Users can no longer sign in with it.",
            done="The provider {provider} is deleted.",
        ),
    ),
)

TEST_PROVIDER = Operation(
    "test_provider",
    "POST",
    f"{ONE}/test",
    Permission.SETTINGS,
    "Test a sign-in provider, without a user",
    run_test,
    description="Reads its discovery document and its keys, and sends an invalid code to its token "
    "endpoint.",
    output=ProviderTested,
    error_statuses=(409,),
)

PROVIDER_OPERATIONS = (
    LIST_PROVIDERS,
    CREATE_PROVIDER,
    READ_PROVIDER,
    CHANGE_PROVIDER,
    DISABLE_PROVIDER,
    ENABLE_PROVIDER,
    DELETE_PROVIDER,
    TEST_PROVIDER,
)
