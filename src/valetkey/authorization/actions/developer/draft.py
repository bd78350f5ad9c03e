"""The portal's draft of an app, and its translation into client metadata."""

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
class AppDraft:
    """An app as a developer describes it, unchecked. `profile` may be "" for the default."""

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
    """The kind of an app, derived from its registration."""
    if client.grant_types == frozenset({GrantTypeName.CLIENT_CREDENTIALS.value}):
        return AppKind.MACHINE
    if client.is_native:
        return AppKind.DEVICE
    return AppKind.BROWSER if client.is_public else AppKind.SERVER


def draft_of(client: Client) -> AppDraft:
    """The draft that leaves the app as it is."""
    return AppDraft(
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


def fresh(draft: AppDraft, profile: str, allowed: Collection[str]) -> ClientMetadata:
    """The registration of a new app; of its grant types those in `allowed`."""
    public = draft.kind in {AppKind.BROWSER, AppKind.DEVICE}
    metadata = ClientMetadata(
        name="",
        type=(ClientType.PUBLIC if public else ClientType.CONFIDENTIAL).value,
        application_type=(
            ApplicationType.NATIVE if draft.kind is AppKind.DEVICE else ApplicationType.WEB
        ).value,
        profile=draft.profile or profile,
        grant_types=(),
    )
    return changed(metadata, draft, allowed)


def changed(before: ClientMetadata, draft: AppDraft, allowed: Collection[str]) -> ClientMetadata:
    """The registration `before`, as the developer wants it now.

    What the form does not speak of stays: what an administrator gave is not a developer's to lose
    by pressing a button about something else.
    """
    added = tuple(name for name in draft.scopes if name not in before.scopes)
    given = [name for name in before.default_scopes if name in draft.scopes]
    given += [name for name in added if name != OFFLINE_ACCESS]
    return replace(
        before,
        name=draft.name,
        description=draft.description,
        redirect_uris=draft.redirect_uris,
        grant_types=_grant_types(before, draft, allowed),
        scopes=draft.scopes,
        default_scopes=Scope(tuple(given)).names,
        required_scopes=tuple(name for name in before.required_scopes if name in draft.scopes),
        profile=draft.profile or before.profile,
        requires_pkce=draft.requires_pkce and draft.kind is not AppKind.MACHINE,
        logo_uri=draft.logo_uri,
        policy_uri=draft.policy_uri,
        tos_uri=draft.tos_uri,
        openid=replace(before.openid, client_uri=draft.website),
    )


def _grant_types(
    before: ClientMetadata, draft: AppDraft, allowed: Collection[str]
) -> tuple[str, ...]:
    chosen = {name for name in before.grant_types if name not in _SPOKEN_OF}
    if draft.kind is AppKind.MACHINE:
        wanted = {GrantTypeName.CLIENT_CREDENTIALS.value}
    else:
        wanted = {GrantTypeName.AUTHORIZATION_CODE.value}
        if draft.stays_connected:
            wanted.add(GrantTypeName.REFRESH_TOKEN.value)
        if draft.acts_alone and draft.kind is AppKind.SERVER:
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
