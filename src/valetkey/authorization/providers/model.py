"""Sign-in providers, accounts there that are linked with accounts here, and their events."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from valetkey.authorization.model.event.event import ActivityKind, ActivityText, ByUser, Event
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.authorization.providers.settings import (
    LONGEST,
    MOST_KEPT,
    ProviderKind,
    ProviderSettings,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable

LONGEST_SECRET = 2_000


def _text(longest: int, description: str) -> Meta:
    return Meta(pattern=NO_CONTROLS, max_length=longest, description=description)


_Names = Annotated[
    list[Annotated[str, Meta(pattern=NO_CONTROLS, max_length=200)]],
    Meta(max_length=MOST_KEPT),
]


def _described(text: str) -> Meta:
    return Meta(extra_json_schema={"description": text})


class ProviderWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Input for a sign-in provider."""

    id: Annotated[
        str, _text(31, "Part of the redirect URI: lower-case letters, digits and hyphens.")
    ]
    name: Annotated[str, _text(60, "The label of the button.")]
    client_id: Annotated[str, _text(LONGEST, "The client ID that the provider issued.")]
    client_secret: Annotated[
        str, _text(LONGEST_SECRET, "The client secret that the provider issued.")
    ]
    issuer: Annotated[
        str, _text(LONGEST, "The issuer of an OpenID provider; the address of GitHub Enterprise.")
    ] = ""
    kind: ProviderKind = ProviderKind.OPENID
    scopes: Annotated[_Names, _described("Scopes beyond those for identity.")] = []
    keep_claims: Annotated[
        _Names, _described("Claims of the provider to store, for declared claims.")
    ] = []
    sign_up: Annotated[
        bool, _described("Whether new users may sign up with it, where allowed.")
    ] = True


SECRET = "client_secret"
CHOSEN = tuple(
    name for name in ProviderWanted.__struct_fields__ if name not in {"id", "issuer", "kind"}
)
"""What can be changed. Linked accounts belong to the other fields."""


class StoredProvider(Struct, frozen=True):
    """A sign-in provider that an administrator added; `sealed` is the encrypted client secret.

    `id`, `kind` and `issuer` never change, because linked accounts belong to them.
    """

    id: str
    name: str
    kind: ProviderKind
    issuer: str
    client_id: str
    sealed: str
    scopes: tuple[str, ...]
    keep_claims: tuple[str, ...]
    sign_up: bool
    created_at: Instant
    disabled_at: Instant | None = None

    @property
    def chosen(self) -> dict[str, Any]:
        """What was chosen, without the client secret."""
        return {name: getattr(self, name) for name in CHOSEN if name != SECRET}

    @property
    def settings(self) -> ProviderSettings:
        """Return the same as settings of the configuration file."""
        return ProviderSettings(id=self.id, kind=self.kind, issuer=self.issuer, **self.chosen)


def secret_place(provider_id: str) -> str:
    """Return the context in which the client secret is encrypted."""
    return f"providers.sealed:{provider_id}"


class Identity(Struct, frozen=True):
    """One account at an issuer, linked to one account here.

    `shown` is displayed to the user: an address or a username at the issuer. It is never used for a
    lookup. `claims` are the kept ones as JSON; "" for none.
    """

    issuer: str
    subject: str
    uid: Uid
    shown: str
    linked_at: Instant
    last_used_at: Instant | None = None
    claims: str = ""


class IdentityLinked(ByUser, frozen=True):
    """An account at an upstream provider was linked."""

    sentence = translatable("An account at %(issuer)s was linked to %(uid)s.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A linked account was added."))

    uid: int
    issuer: str


class IdentityUnlinked(ByUser, frozen=True):
    """An account at an upstream provider was unlinked; `because` says why."""

    sentence = translatable("An account at %(issuer)s was unlinked from %(uid)s.")
    activity = ActivityText(ActivityKind.SECURITY, translatable("A linked account was removed."))

    uid: int
    issuer: str
    because: str


class ProviderCreated(Event, frozen=True):
    """A sign-in provider was added."""

    subject = "provider:{provider_id}"
    sentence = translatable("The sign-in provider %(provider_id)s was added.")

    provider_id: str
    issuer: str


class ProviderChanged(Event, frozen=True):
    """These properties of a sign-in provider were changed; a new client secret is never shown."""

    subject = "provider:{provider_id}"
    sentence = translatable("The sign-in provider %(provider_id)s was changed: %(fields)s.")

    provider_id: str
    fields: tuple[str, ...]


class ProviderDisabled(Event, frozen=True):
    """A sign-in provider was disabled: users cannot sign in with it until it is enabled."""

    subject = "provider:{provider_id}"
    sentence = translatable("The sign-in provider %(provider_id)s was disabled.")

    provider_id: str


class ProviderEnabled(Event, frozen=True):
    """A sign-in provider was enabled again."""

    subject = "provider:{provider_id}"
    sentence = translatable("The sign-in provider %(provider_id)s was enabled.")

    provider_id: str


class ProviderRemoved(Event, frozen=True):
    """A sign-in provider was deleted; so many accounts were linked with it."""

    subject = "provider:{provider_id}"
    sentence = translatable("The sign-in provider %(provider_id)s was deleted.")

    provider_id: str
    issuer: str
    linked: int


EVENTS = (
    ProviderCreated,
    ProviderChanged,
    ProviderDisabled,
    ProviderEnabled,
    ProviderRemoved,
    IdentityLinked,
    IdentityUnlinked,
)
