"""What a developer says of an app in plain words, and the registration that follows from it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from valetkey.authorization.model.register.client import (
    ApplicationType,
    Client,
    ClientType,
    GrantTypeName,
)
from valetkey.authorization.protocol.claims import OFFLINE_ACCESS
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.kernel.scope import Scope


class AppKind(StrEnum):
    """Where an app runs; type, proof and PKCE follow from it."""

    SERVER = "server"  # a web application with a server that keeps a secret
    BROWSER = "browser"  # a single-page application: all its code is with the visitor
    DEVICE = "device"  # on a telephone or a desktop
    MACHINE = "machine"  # no person is involved


@dataclass(frozen=True, slots=True)
class AppWish:
    """What the form says, unchecked. `profile` may be "" for the server's proposal."""

    kind: AppKind
    name: str = ""
    description: str = ""
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    profile: str = ""
    website: str = ""
    logo_uri: str = ""
    policy_uri: str = ""
    tos_uri: str = ""
    #: It gets refresh tokens, and needs not ask again every hour.
    stays_connected: bool = True
    #: It also asks for tokens of its own, without a person.
    acts_alone: bool = False
    requires_pkce: bool = True


def kind_of(client: Client) -> AppKind:
    """Where this app runs, as far as its registration tells."""
    if client.grant_types == frozenset({GrantTypeName.CLIENT_CREDENTIALS.value}):
        return AppKind.MACHINE
    if client.is_native:
        return AppKind.DEVICE
    return AppKind.BROWSER if client.is_public else AppKind.SERVER


def wish_of(client: Client) -> AppWish:
    """What would leave the app as it is."""
    return AppWish(
        kind=kind_of(client),
        name=client.name,
        description=client.description,
        redirect_uris=client.redirect_uris,
        scopes=client.scope.names,
        profile=client.profile_name.value,
        website=client.openid.client_uri,
        logo_uri=client.logo_uri,
        policy_uri=client.policy_uri,
        tos_uri=client.tos_uri,
        stays_connected=GrantTypeName.REFRESH_TOKEN in client.grant_types,
        acts_alone=GrantTypeName.CLIENT_CREDENTIALS in client.grant_types,
        requires_pkce=client.requires_pkce,
    )


def fresh(wish: AppWish, profile: str, allowed: Collection[str]) -> ClientMetadata:
    """The registration of a new app; of its grant types those in `allowed`."""
    public = wish.kind in {AppKind.BROWSER, AppKind.DEVICE}
    metadata = ClientMetadata(
        name="",
        type=(ClientType.PUBLIC if public else ClientType.CONFIDENTIAL).value,
        application_type=(
            ApplicationType.NATIVE if wish.kind is AppKind.DEVICE else ApplicationType.WEB
        ).value,
        profile=wish.profile or profile,
        grant_types=(),
    )
    return changed(metadata, wish, allowed)


def changed(before: ClientMetadata, wish: AppWish, allowed: Collection[str]) -> ClientMetadata:
    """The registration `before`, as the developer wants it now.

    What the form does not speak of stays: what an administrator gave is not a developer's to lose
    by pressing a button about something else.
    """
    added = tuple(name for name in wish.scopes if name not in before.scopes)
    given = [name for name in before.default_scopes if name in wish.scopes]
    given += [name for name in added if name != OFFLINE_ACCESS]
    return replace(
        before,
        name=wish.name,
        description=wish.description,
        redirect_uris=wish.redirect_uris,
        grant_types=_grant_types(before, wish, allowed),
        scopes=wish.scopes,
        default_scopes=Scope(tuple(given)).names,
        required_scopes=tuple(name for name in before.required_scopes if name in wish.scopes),
        profile=wish.profile or before.profile,
        requires_pkce=wish.requires_pkce and wish.kind is not AppKind.MACHINE,
        logo_uri=wish.logo_uri,
        policy_uri=wish.policy_uri,
        tos_uri=wish.tos_uri,
        openid=replace(before.openid, client_uri=wish.website),
    )


def _grant_types(
    before: ClientMetadata, wish: AppWish, allowed: Collection[str]
) -> tuple[str, ...]:
    chosen = {name for name in before.grant_types if name not in _SPOKEN_OF}
    if wish.kind is AppKind.MACHINE:
        wanted = {GrantTypeName.CLIENT_CREDENTIALS.value}
    else:
        wanted = {GrantTypeName.AUTHORIZATION_CODE.value}
        if wish.stays_connected:
            wanted.add(GrantTypeName.REFRESH_TOKEN.value)
        if wish.acts_alone and wish.kind is AppKind.SERVER:
            wanted.add(GrantTypeName.CLIENT_CREDENTIALS.value)
    # What it had before it keeps, whatever the settings say to new ones.
    return tuple(sorted(chosen | (wanted & {*allowed, *before.grant_types})))


_SPOKEN_OF = frozenset(
    {
        GrantTypeName.AUTHORIZATION_CODE,
        GrantTypeName.REFRESH_TOKEN,
        GrantTypeName.CLIENT_CREDENTIALS,
    }
)
