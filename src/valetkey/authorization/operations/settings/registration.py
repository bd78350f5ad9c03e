"""Operations on dynamic client registration: its policy and its tokens."""

from valetkey.authorization.actions.admin import registration
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.registration import InvitationSecrets, WantedInvitation
from valetkey.authorization.model.event.grants import InvitationIssued, InvitationWithdrawn
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    Call,
    Operation,
    reads,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.server_records import (
    InvitationMade,
    Invitations,
    InvitationShown,
    InvitationWanted,
    RegistrationShown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import RegistrationMode, Settings
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Prefix


def read_registration(tx: Transaction, call: Call) -> RegistrationShown:
    """Read who may register apps."""
    policy, people = call.services.settings.registration, call.services.portal.registrants
    return RegistrationShown(policy.mode.value, people or "nobody", policy.unused_lifetime)


def list_invitations(tx: Transaction, call: Call) -> Invitations:
    """List the registration tokens that can still be used."""
    return Invitations([_shown(each) for each in registration.live(tx, call.actor, call.now)])


def invite(tx: Transaction, call: Call) -> InvitationMade | tuple[MetadataError, ...]:
    """Issue a registration token."""
    body = call.input(InvitationWanted)
    fresh = InvitationSecrets(call.new_id("in"), call.new_secret(Prefix.INVITATION))
    wanted = WantedInvitation(body.note, body.uses, Lifetime(body.lifetime))
    key = call.services.fingerprints
    made = registration.invite(tx, call.actor, key, wanted, fresh, call.now)
    if isinstance(made, tuple):
        return made
    return InvitationMade(fresh.token.reveal(), _shown(made))


def _registration_off(settings: Settings) -> str:
    if settings.registration.mode is RegistrationMode.OFF:
        return 'Nothing can be registered with it while registration.mode is "off".'
    return ""


def withdraw_invitation(tx: Transaction, call: Call) -> None:
    """Withdraw a registration token."""
    if not registration.withdraw(tx, call.actor, call.named("invitation_id"), call.now):
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this invitation does not exist", "admin.invitation"
        )


def _shown(each: InitialAccessToken) -> InvitationShown:
    return InvitationShown(each.id, each.note, each.uses_left, each.created_at, each.expires_at)


INVITE = Operation(
    "create_invitation",
    "POST",
    "/invitations",
    Permission.CLIENTS,
    "Issue a registration token, shown once",
    unchecked_write(invite),
    input=InvitationWanted,
    output=InvitationMade,
    status=201,
    event=InvitationIssued,
    commands=(
        Command(
            "registration invite",
            example='--uses 20 --days 30 --note "The printing team"',
            options=(Option("lifetime", "--days", "For how many days.", unit=86_400, default=7),),
            renamed={"token": "initial_access_token"},
            done="{token}",
            note="Uses: {uses_left}, until {expires_at}. It is shown only now.",
            remark=_registration_off,
        ),
    ),
)

WITHDRAW_INVITATION = Operation(
    "delete_invitation",
    "DELETE",
    "/invitations/{invitation_id}",
    Permission.CLIENTS,
    "Withdraw a registration token",
    writes(withdraw_invitation),
    status=204,
    event=InvitationWithdrawn,
    commands=(Command("registration withdraw"),),
)

REGISTRATION = (
    Operation(
        "read_registration",
        "GET",
        "/registration",
        Permission.READ,
        "Show who may register apps",
        reads(read_registration),
        output=RegistrationShown,
    ),
    Operation(
        "list_invitations",
        "GET",
        "/invitations",
        Permission.READ,
        "List registration tokens",
        reads(list_invitations),
        output=Invitations,
        commands=(
            Command(
                columns=(
                    ("ID", "id"),
                    ("USES LEFT", "uses_left"),
                    ("UNTIL", "expires_at"),
                    ("NOTE", "note"),
                ),
                empty="There are no tokens. Next: valetkey registration invite --help",
            ),
        ),
    ),
    INVITE,
    WITHDRAW_INVITATION,
)
