"""Events of apps, their teams and APIs, and of consents, codes, grants and tokens.

`audience` is the identifier of the API that an access token is for. Events stored before it was
recorded have none.
"""

from types import MappingProxyType
from typing import ClassVar, Literal

from valetkey.authorization.model.client import GrantTypeName
from valetkey.authorization.model.event.event import (
    WHY_ACCESS_ENDED,
    ActivityKind,
    ActivityText,
    ByAnonymous,
    ByClient,
    ByUser,
    Event,
)
from valetkey.kernel.text import translatable


class ConsentGiven(ByUser, frozen=True):
    """A user allowed a client this scope, at these APIs, and individually requested claims."""

    sentence = translatable("%(uid)s allowed the app %(client_id)s to use their account.")
    activity = ActivityText(
        ActivityKind.APPS, translatable("You allowed <bdi>%(name)s</bdi> to use your account.")
    )

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    scope: str
    claims: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()


class ConsentDenied(ByUser, frozen=True):
    """A user declined a consent request."""

    without = MappingProxyType({"uid": translatable("Access was denied to the app %(client_id)s.")})
    sentence = translatable("%(uid)s denied access to the app %(client_id)s.")
    activity = ActivityText(
        ActivityKind.APPS, translatable("You denied access to <bdi>%(name)s</bdi>.")
    )

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    client_id: str


class ConsentWithdrawn(ByUser, frozen=True):
    """A user withdrew a consent; the client must ask again."""

    sentence = translatable("%(uid)s revoked access for the app %(client_id)s.")
    activity = ActivityText(
        ActivityKind.APPS, translatable("You revoked access for <bdi>%(name)s</bdi>.")
    )

    uid: int
    client_id: str


class CodeIssued(ByUser, frozen=True):
    """An authorization code was issued; `pkce` says whether the request had a code challenge."""

    sentence = translatable("The app %(client_id)s got an authorization code for %(uid)s.")
    unlisted = "followed by code.redeemed within moments"

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    pkce: bool


class CodeRedeemed(ByClient, frozen=True):
    """A code was redeemed: the grant began and its first access token was issued."""

    sentence = translatable("The app %(client_id)s got access to the account %(uid)s.")
    activity = ActivityText(ActivityKind.APPS, translatable("<bdi>%(name)s</bdi> got access."))

    issued_by: ClassVar[str] = GrantTypeName.AUTHORIZATION_CODE.value
    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    scope: str
    audience: str


class CodeReplayed(ByClient, frozen=True):
    """A code was used twice; its grant was revoked."""

    is_alarming = True
    sentence = translatable(
        "The app %(client_id)s used an authorization code twice; the grant was revoked."
    )

    client_id: str
    grant_id: str


class CodeSpoiled(ByClient, frozen=True):
    """A code came with a wrong verifier or redirect URI from its client; the code is void."""

    sentence = translatable(
        "The app %(client_id)s used an authorization code incorrectly; the code is no longer valid."
    )

    client_id: str
    grant_id: str
    check: str


class AccessTokenIssued(ByClient, frozen=True):
    """An access token was issued without a code or a refresh token; `grant_type` says how."""

    sentence = translatable("The app %(client_id)s got an access token.")
    unlisted = "one for each sign-in of an app, which code.redeemed records"

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int | None
    grant_id: str | None
    token_id: str
    grant_type: str
    scope: str
    audience: str


class IdentityAssertionIssued(ByClient, frozen=True):
    """A client got an assertion about a user for the authorization server `audience`."""

    sentence = translatable(
        "The app %(client_id)s got an identity assertion of %(uid)s for %(audience)s."
    )
    activity = ActivityText(
        ActivityKind.APPS,
        translatable("<bdi>%(name)s</bdi> got proof of your identity for another service."),
    )

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    token_id: str
    audience: str
    scope: str


class IdentityAssertionRedeemed(ByClient, frozen=True):
    """A client got an access token for the user whom an assertion of `issuer` names."""

    sentence = translatable(
        "The app %(client_id)s got access to the account %(uid)s with an identity assertion of "
        "%(issuer)s."
    )
    activity = ActivityText(
        ActivityKind.APPS,
        translatable(
            "<bdi>%(name)s</bdi> got access with proof of your identity from another service."
        ),
    )

    affects_tokens: ClassVar[bool] = False
    client_id: str
    uid: int
    grant_id: str
    token_id: str
    issuer: str
    scope: str
    audience: str


class RefreshTokenUsed(ByClient, frozen=True):
    """A refresh token was used; `rotated` says whether it was replaced."""

    sentence = translatable("The app %(client_id)s renewed its access to the account %(uid)s.")
    unlisted = "hourly for each app; the page of the app shows the last time"

    issued_by: ClassVar[str] = GrantTypeName.REFRESH_TOKEN.value
    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    grant_id: str
    token_id: str
    rotated: bool
    scope: str
    audience: str


class RefreshTokenRepeated(ByClient, frozen=True):
    """The previous refresh token was used within the grace period; its successor was returned."""

    sentence = translatable("The app %(client_id)s repeated a refresh within the grace period.")

    issued_by: ClassVar[str] = GrantTypeName.REFRESH_TOKEN.value
    affects_tokens: ClassVar[bool] = False
    client_id: str
    grant_id: str
    token_id: str
    audience: str


class RefreshTokenReused(ByClient, frozen=True):
    """A replaced refresh token was used too late; its grant ended as `refresh_token_reused`."""

    is_alarming = True
    is_failure = True
    sentence = translatable(
        "A replaced refresh token of the app %(client_id)s was used; the grant ended."
    )

    client_id: str
    grant_id: str


class AccessTokenRevoked(ByClient, frozen=True):
    """An access token was revoked."""

    sentence = translatable("An access token of the app %(client_id)s was revoked.")

    client_id: str
    grant_id: str | None
    token_id: str
    audience: str


class GrantRevoked(ByUser, frozen=True):
    """A grant was revoked with all its tokens; `because` says why."""

    sentence = translatable(
        "The access of the app %(client_id)s to the account %(uid)s ended: %(because)s."
    )
    activity = ActivityText(
        ActivityKind.APPS, translatable("The access of <bdi>%(name)s</bdi> ended.")
    )
    reasons = WHY_ACCESS_ENDED

    uid: int
    client_id: str
    grant_id: str
    because: str


RemovedBecause = Literal["deleted", "unused", "replaced"]
"""Why a client is removed."""


class ClientRegistered(ByAnonymous, frozen=True):
    """A client was registered; `channel` says how, such as `portal` or `registration`."""

    sentence = translatable("The app %(client_id)s was registered.")

    client_id: str
    channel: str


class ClientChanged(ByClient, frozen=True):
    """A client was changed; `fields` names its changed fields, `channel` says how.

    A change by an operator carries each field's value before and after.
    """

    sentence = translatable("The app %(client_id)s was changed: %(fields)s.")

    client_id: str
    channel: str
    fields: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class ClientDisabled(Event, frozen=True):
    """A client was disabled; its grants, codes and tokens ended."""

    sentence = translatable("The app %(client_id)s was disabled.")

    client_id: str


class ClientEnabled(Event, frozen=True):
    """A client was enabled; what had ended stays ended."""

    sentence = translatable("The app %(client_id)s was enabled.")

    client_id: str


class ClientRemoved(ByClient, frozen=True):
    """A client was removed with its grants; `because` is `deleted`, `unused` or `replaced`.

    Operators, developers and the client itself delete it. A self-registered client is also removed
    when it is unused, and when a registration with the same metadata replaces it.
    """

    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "deleted": translatable("on request"),
        "replaced": translatable("the same app registered again"),
        "unused": translatable("it was not used"),
    }
    sentence = translatable("The app %(client_id)s was deleted: %(because)s.")

    client_id: str
    because: RemovedBecause


class ClientAdopted(Event, frozen=True):
    """An operator adopted a self-registered client."""

    sentence = translatable("The self-registered app %(client_id)s was adopted.")

    client_id: str


class ClientVerified(Event, frozen=True):
    """An administrator verified who runs a client; users see the mark."""

    sentence = translatable("The app %(client_id)s was verified.")

    client_id: str


class ClientVerificationEnded(ByClient, frozen=True):
    """A client lost its verification; `because` is `administrator` or `changed`."""

    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "administrator": translatable("an administrator decided it"),
        "changed": translatable("it was changed"),
    }
    sentence = translatable("The app %(client_id)s is no longer verified: %(because)s.")

    client_id: str
    because: str


class ClientSecretEnded(Event, frozen=True):
    """A client secret was revoked before it expired."""

    sentence = translatable("A secret of the app %(client_id)s was revoked.")

    client_id: str
    secret_id: str


class InvitationIssued(Event, frozen=True):
    """An operator issued an initial access token for client registration (RFC 7591)."""

    subject = "invitation:{invitation_id}"
    sentence = translatable("An invitation to register apps was issued.")

    invitation_id: str
    uses: int


class InvitationWithdrawn(Event, frozen=True):
    """An operator revoked an initial access token."""

    subject = "invitation:{invitation_id}"
    sentence = translatable("An invitation to register apps was withdrawn.")

    invitation_id: str


class ClientSecretIssued(ByClient, frozen=True):
    """A client secret was issued; the older ones expire at `others_expire_at`."""

    sentence = translatable("A secret was issued to the app %(client_id)s.")

    client_id: str
    secret_id: str
    others_expire_at: int | None = None


class ApiRegistered(Event, frozen=True):
    """An API was declared."""

    subject = "api:{api_id}"
    sentence = translatable("The API %(api_id)s was added.")

    api_id: str
    identifier: str


class ApiChanged(Event, frozen=True):
    """An API was changed; `fields` names its changed fields."""

    subject = "api:{api_id}"
    sentence = translatable("The API %(api_id)s was changed: %(fields)s.")

    api_id: str
    identifier: str
    fields: tuple[str, ...]


class ApiDisabled(Event, frozen=True):
    """An API was disabled; codes, tokens and grants for it ended."""

    subject = "api:{api_id}"
    sentence = translatable("The API %(api_id)s was disabled.")

    api_id: str
    identifier: str


class ApiEnabled(Event, frozen=True):
    """An API was enabled; what had ended stays ended."""

    subject = "api:{api_id}"
    sentence = translatable("The API %(api_id)s was enabled.")

    api_id: str
    identifier: str


class ApiRemoved(Event, frozen=True):
    """An API was deleted; codes, tokens and grants for it ended."""

    subject = "api:{api_id}"
    sentence = translatable("The API %(api_id)s was deleted.")

    api_id: str
    identifier: str


class TeamInvitationIssued(Event, frozen=True):
    """An owner invited a user to the team of an app."""

    sentence = translatable("A user was invited to the team of the app %(client_id)s.")

    client_id: str
    invitation_id: str
    role: str


class TeamInvitationEnded(Event, frozen=True):
    """A team invitation ended: `withdrawn`, `declined`, `inviter_left` or `removed`."""

    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "declined": translatable("the user declined it"),
        "inviter_left": translatable("the user who sent it left the team"),
        "removed": translatable("a member was removed from the team"),
        "withdrawn": translatable("an owner withdrew it"),
    }
    sentence = translatable(
        "An invitation to the team of the app %(client_id)s ended: %(because)s."
    )

    client_id: str
    invitation_id: str
    because: str


class TeamMemberAdded(Event, frozen=True):
    """A user joined the team of an app, as an owner or a member."""

    sentence = translatable("%(uid)s joined the team of the app %(client_id)s.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You joined the team of <bdi>%(name)s</bdi>.")
    )

    client_id: str
    uid: int
    role: str


class TeamMemberChanged(Event, frozen=True):
    """The role of a team member changed."""

    sentence = translatable(
        "The role of %(uid)s in the team of the app %(client_id)s was changed to %(role)s."
    )
    activity = ActivityText(
        ActivityKind.ACCOUNT,
        translatable("Your role in the team of <bdi>%(name)s</bdi> was changed."),
    )

    client_id: str
    uid: int
    role: str


class TeamMemberRemoved(Event, frozen=True):
    """A user left the team of an app or was removed from it."""

    sentence = translatable("%(uid)s is no longer in the team of the app %(client_id)s.")
    activity = ActivityText(
        ActivityKind.ACCOUNT, translatable("You left the team of <bdi>%(name)s</bdi>.")
    )

    client_id: str
    uid: int
