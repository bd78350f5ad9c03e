"""Every event there is, in the order of its page."""

from valetkey.authorization.model.event.administration import (
    ApiTokenEnded,
    ApiTokenIssued,
    BrandChanged,
    EventsExported,
)
from valetkey.authorization.model.event.clients import (
    ClientAdopted,
    ClientChanged,
    ClientDisabled,
    ClientEnabled,
    ClientRegistered,
    ClientRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
    ClientVerificationEnded,
    ClientVerified,
    InvitationIssued,
    InvitationWithdrawn,
)
from valetkey.authorization.model.event.event import (
    Event,
)
from valetkey.authorization.model.event.factors import (
    AuthenticatorAdded,
    AuthenticatorRemoved,
    DeviceForgotten,
    DeviceRemembered,
    DeviceReused,
    FactorsReset,
    PasskeyAdded,
    PasskeyCounterFell,
    PasskeyRemoved,
    PasskeyRenamed,
    PasswordRemoved,
    RecoveryCodesIssued,
    RecoveryCodeUsed,
    SecondFactorFailed,
)
from valetkey.authorization.model.event.grants import (
    AccessTokenIssued,
    AccessTokenRevoked,
    CodeIssued,
    CodeRedeemed,
    CodeReplayed,
    CodeSpoiled,
    ConsentDenied,
    ConsentGiven,
    ConsentWithdrawn,
    GrantRevoked,
    RefreshTokenRepeated,
    RefreshTokenReused,
    RefreshTokenUsed,
)
from valetkey.authorization.model.event.keys import (
    DatabaseRestored,
    KeyringRotated,
    SigningKeyIssued,
    SigningKeyRetired,
    SigningKeyWithdrawn,
)
from valetkey.authorization.model.event.mail import MailDispatched, MailGivenUp
from valetkey.authorization.model.event.people import (
    DataExported,
    EmailRestored,
    IdentityLinked,
    IdentityUnlinked,
    PasswordChanged,
    PasswordResetRequested,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserInvited,
    UserRegistered,
    UserRemovalCancelled,
    UserRemovalPlanned,
    UserRemoved,
)
from valetkey.authorization.model.event.portal import (
    TeamInvitationEnded,
    TeamInvitationIssued,
    TeamMemberAdded,
    TeamMemberChanged,
    TeamMemberRemoved,
)
from valetkey.authorization.model.event.roles import (
    DeveloperAdmitted,
    DeveloperDismissed,
    OwnerLinkIssued,
    OwnerLinkRedeemed,
    RoleChanged,
)
from valetkey.authorization.model.event.sessions import (
    IdentityConfirmed,
    LogoutTokenDelivered,
    LogoutTokenGivenUp,
    SessionEnded,
    SessionRenewed,
    SessionStarted,
    SignInFailed,
)

_OF_CLIENTS: tuple[type[Event], ...] = (
    ClientRegistered,
    ClientChanged,
    ClientDisabled,
    ClientEnabled,
    ClientRemoved,
    ClientAdopted,
    InvitationIssued,
    InvitationWithdrawn,
    ClientSecretIssued,
    ClientSecretEnded,
    TeamInvitationIssued,
    TeamInvitationEnded,
    TeamMemberAdded,
    TeamMemberChanged,
    TeamMemberRemoved,
    ClientVerified,
    ClientVerificationEnded,
)
_OF_PEOPLE: tuple[type[Event], ...] = (
    IdentityLinked,
    IdentityUnlinked,
    UserRegistered,
    UserRemovalPlanned,
    UserRemovalCancelled,
    UserRemoved,
    DataExported,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserInvited,
    PasswordResetRequested,
    EmailRestored,
    PasswordChanged,
    MailDispatched,
    MailGivenUp,
)
_OF_ROLES: tuple[type[Event], ...] = (
    RoleChanged,
    OwnerLinkIssued,
    OwnerLinkRedeemed,
    DeveloperAdmitted,
    DeveloperDismissed,
)
_OF_SESSIONS: tuple[type[Event], ...] = (
    SignInFailed,
    SessionStarted,
    SessionRenewed,
    IdentityConfirmed,
    SessionEnded,
    LogoutTokenDelivered,
    LogoutTokenGivenUp,
)
_OF_FACTORS: tuple[type[Event], ...] = (
    SecondFactorFailed,
    PasskeyAdded,
    PasskeyRenamed,
    PasskeyRemoved,
    PasskeyCounterFell,
    AuthenticatorAdded,
    AuthenticatorRemoved,
    RecoveryCodesIssued,
    RecoveryCodeUsed,
    PasswordRemoved,
    DeviceRemembered,
    DeviceForgotten,
    DeviceReused,
    FactorsReset,
)
_OF_GRANTS: tuple[type[Event], ...] = (
    ConsentGiven,
    ConsentDenied,
    ConsentWithdrawn,
    CodeIssued,
    CodeRedeemed,
    CodeReplayed,
    CodeSpoiled,
    AccessTokenIssued,
    RefreshTokenUsed,
    RefreshTokenRepeated,
    RefreshTokenReused,
    AccessTokenRevoked,
    GrantRevoked,
)
_OF_KEYS: tuple[type[Event], ...] = (
    SigningKeyIssued,
    SigningKeyRetired,
    SigningKeyWithdrawn,
    KeyringRotated,
    DatabaseRestored,
)
_OF_ADMINISTRATION: tuple[type[Event], ...] = (
    ApiTokenIssued,
    ApiTokenEnded,
    BrandChanged,
    EventsExported,
)

EVENTS: tuple[type[Event], ...] = (
    *_OF_CLIENTS,
    *_OF_PEOPLE,
    *_OF_ROLES,
    *_OF_SESSIONS,
    *_OF_FACTORS,
    *_OF_GRANTS,
    *_OF_KEYS,
    *_OF_ADMINISTRATION,
)
