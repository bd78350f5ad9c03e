"""The kinds of app that the portal knows, and the metadata of a new app of each."""

from collections.abc import Collection
from enum import StrEnum

from valetkey.authorization.model.register.client import (
    ApplicationType,
    Client,
    ClientType,
    GrantTypeName,
)
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata


class AppKind(StrEnum):
    """The kind of app; client type, authentication and PKCE follow from it."""

    SERVER = "server"  # a web application with a server that keeps a secret
    BROWSER = "browser"  # a single-page application: all its code is with the visitor
    DEVICE = "device"  # on a telephone or a desktop
    MACHINE = "machine"  # no person is involved


def kind_of(app: Client | ClientMetadata) -> AppKind:
    """Return the kind of an app."""
    if set(app.grant_types) == {GrantTypeName.CLIENT_CREDENTIALS}:
        return AppKind.MACHINE
    if app.application_type == ApplicationType.NATIVE:
        return AppKind.DEVICE
    return AppKind.BROWSER if app.type == ClientType.PUBLIC else AppKind.SERVER


def new_app(kind: AppKind, profile: str, allowed: Collection[str]) -> ClientMetadata:
    """Return the metadata with which the form of a new app starts, its grant types `allowed`."""
    public = kind in {AppKind.BROWSER, AppKind.DEVICE}
    grants = [GrantTypeName.AUTHORIZATION_CODE.value, GrantTypeName.REFRESH_TOKEN.value]
    if kind is AppKind.MACHINE:
        grants = [GrantTypeName.CLIENT_CREDENTIALS.value]
    return ClientMetadata(
        name="",
        type=(ClientType.PUBLIC if public else ClientType.CONFIDENTIAL).value,
        application_type=(
            ApplicationType.NATIVE if kind is AppKind.DEVICE else ApplicationType.WEB
        ).value,
        profile=profile,
        grant_types=tuple(name for name in grants if name in allowed),
        requires_pkce=kind is not AppKind.MACHINE,
    )
