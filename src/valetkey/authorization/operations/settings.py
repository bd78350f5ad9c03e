"""Operations on stored settings, and on the policy and tokens of dynamic registration."""

from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.tokens import InvitationSecrets, WantedInvitation
from valetkey.authorization.model.event.administration import SettingChanged
from valetkey.authorization.model.event.grants import InvitationIssued, InvitationWithdrawn
from valetkey.authorization.operations.operation import (
    Anything,
    Button,
    Call,
    Command,
    Done,
    Operation,
    Option,
    Result,
    on,
    reads,
    tag_of,
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
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, MetadataError, fault
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.catalogue import (
    Explained,
    Merged,
    as_text,
    catalogue,
    explain,
    is_changeable,
    merge,
)
from valetkey.config.rules import InvalidValue
from valetkey.config.settings import Origin, RegistrationMode, Settings
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable

_ALL = "/settings"
ONE = "/settings/{setting}"


class SettingShown(Struct, frozen=True):
    """One setting, its secrets masked; a lifetime and the like are written as in the file.

    `stored` is the value that was set at runtime, null for none, and `ignored` why it is not used.
    `changeable` says whether a value can be set at runtime now. `line` is that of the configuration
    file, null if it does not set the setting or sets it in an inline table. `label` and `group` are
    those of the console.
    """

    path: str
    value: Anything
    origin: Literal["default", "stored", "file", "environment"]
    default: Anything
    variable: str
    reason: str
    stored: str | None = None
    ignored: str = ""
    changeable: bool = False
    line: int | None = None
    label: str = ""
    group: str = ""


class SettingsShown(Struct, frozen=True):
    """The list of settings."""

    items: list[SettingShown]


class SettingWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """Input for the value of a setting, written as in its environment variable."""

    value: Annotated[
        str,
        msgspec.Meta(
            pattern=NO_CONTROLS,
            max_length=2_000,
            description="As in the environment variable: `true`, `20`, `30d`, `first,second`.",
        ),
    ]


def read_settings(tx: Transaction, call: Call) -> SettingsShown:
    """List every setting, and stored values of settings that this version does not have."""
    stored = dict(tx.stored_settings.all())
    merged = _merged(call, stored)
    settings = [_shown(explained, stored, merged) for explained in explain(merged.settings)]
    unknown = [_unknown(path, stored, merged) for path in stored if path not in catalogue()]
    return SettingsShown([*settings, *unknown])


def read_setting(tx: Transaction, call: Call) -> Result:
    """Return a setting. Refused: not found."""
    return _result(_found(tx, call))


def change_setting(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Store a value. Refused: not found; conflict for a setting of the configuration file."""
    # First: the role is checked with the actor's own account locked.
    tx.stored_settings.take_turn()
    require(tx, call.actor, call.operation.permission)
    before = _found(tx, call)
    call.preconditions.check(tag_of(before))
    setting = catalogue().get(before.path)
    if setting is None or not before.changeable:
        raise _only_in_file(before)
    try:
        value = setting.rule.read(setting.rule.from_text(call.input(SettingWanted).value.strip()))
    except InvalidValue:
        return (MetadataError("value", setting.rule.expected),)
    text = as_text(setting, value)
    merged = _merged(call, {**tx.stored_settings.all(), before.path: text})
    if before.path in merged.ignored:
        return (fault("value", "setting.contradiction", reason=merged.ignored[before.path]),)
    tx.stored_settings.set(before.path, text, call.now)
    return _result(_recorded(tx, call, before))


def reset_setting(tx: Transaction, call: Call) -> bool:
    """Delete the stored value of a setting. False if there is none."""
    tx.stored_settings.take_turn()
    require(tx, call.actor, call.operation.permission)
    before = _found(tx, call)
    call.preconditions.check(tag_of(before))
    if not tx.stored_settings.drop(before.path):
        return False
    if before.path in catalogue():
        _recorded(tx, call, before)
    else:
        tx.events.add(SettingChanged(before.path, before.stored or "", ""), call.now)
    return True


def _recorded(tx: Transaction, call: Call, before: SettingShown) -> SettingShown:
    after = _found(tx, call)
    if (after.value, after.stored) != (before.value, before.stored):
        old, new = (_text(setting) for setting in (before, after))
        tx.events.add(SettingChanged(before.path, old, new), call.now)
    return after


def _text(shown: SettingShown) -> str:
    return (
        shown.value if isinstance(shown.value, str) else msgspec.json.encode(shown.value).decode()
    )


def _found(tx: Transaction, call: Call) -> SettingShown:
    path, stored = call.named("setting"), dict(tx.stored_settings.all())
    merged = _merged(call, stored)
    if path in catalogue():
        return _shown(explain(merged.settings, path)[0], stored, merged)
    if path in stored:
        return _unknown(path, stored, merged)
    raise Refused.because(ErrorCode.NOT_FOUND, "this setting does not exist", "setting.unknown")


def _only_in_file(shown: SettingShown) -> Refused:
    if not is_changeable(shown.path):
        text = translatable("this setting is changed in the configuration file")
    else:
        text = translatable("the configuration file or the environment sets it; change it there")
    return Refused.because(ErrorCode.CONFLICT, text, "setting.file_only")


def _merged(call: Call, stored: dict[str, str]) -> Merged:
    return merge(call.services.base, stored, call.services.check)


def _shown(explained: Explained, stored: dict[str, str], merged: Merged) -> SettingShown:
    is_pinned = explained.origin in {Origin.FILE, Origin.ENVIRONMENT}
    setting = catalogue()[explained.path]
    line = (
        merged.settings.source.lines.get(explained.path)
        if explained.origin is Origin.FILE
        else None
    )
    return SettingShown(
        explained.path,
        explained.value,
        explained.origin.value,
        explained.default,
        explained.variable,
        explained.reason,
        stored.get(explained.path),
        merged.ignored.get(explained.path, ""),
        is_changeable(explained.path) and not is_pinned,
        line,
        setting.label,
        setting.group.value,
    )


def _unknown(path: str, stored: dict[str, str], merged: Merged) -> SettingShown:
    text = stored[path]
    return SettingShown(path, None, "stored", None, "", "", text, merged.ignored.get(path, ""))


def _result(shown: SettingShown) -> Result:
    return Result(shown, etag=tag_of(shown))


READ_SETTINGS = Operation(
    "read_settings",
    "GET",
    _ALL,
    Permission.READ,
    "List settings: each with its value, where that comes from, and why it exists",
    reads(read_settings),
    output=SettingsShown,
    commands=(
        Command(
            name="settings list",
            columns=(("SETTING", "path"), ("VALUE", "value"), ("ORIGIN", "origin")),
        ),
    ),
)

READ_SETTING = Operation(
    "read_setting",
    "GET",
    ONE,
    Permission.READ,
    "Show a setting",
    reads(read_setting),
    output=SettingShown,
    returns_etag=True,
    commands=(Command(name="settings show"),),
)

CHANGE_SETTING = Operation(
    "change_setting",
    "PUT",
    ONE,
    Permission.SETTINGS,
    "Change a setting at runtime",
    unchecked_write(change_setting),
    description="All nodes apply it within ten seconds, without failing requests. What the "
    "configuration file or the environment sets is changed there: 409.",
    input=SettingWanted,
    output=SettingShown,
    returns_etag=True,
    error_statuses=(409,),
    event=SettingChanged,
    requires_recent_sign_in=True,
    commands=(
        Command(
            name="settings set",
            example="30m",
            options=(Option("value", argument=True),),
            done="{path} is {value}.",
        ),
    ),
)

RESET_SETTING = Operation(
    "reset_setting",
    "DELETE",
    ONE,
    Permission.SETTINGS,
    "Delete the value of a setting that was set at runtime",
    unchecked_write(reset_setting),
    description="Its default applies again, or what the configuration file says.",
    output=Done,
    event=SettingChanged,
    buttons=(
        Button(
            "reset",
            translatable("Reset setting"),
            translatable("The value that was set here is deleted, and the default applies again."),
            translatable("The setting is reset. All nodes apply it within ten seconds."),
            shown_for=on(SettingShown, lambda it: it.stored is not None),
        ),
    ),
    commands=(
        Command(
            name="settings reset",
            done="{setting} is reset.",
            unchanged="{setting} was not set at runtime; nothing changed.",
        ),
    ),
)

SETTINGS = (READ_SETTINGS, READ_SETTING, CHANGE_SETTING, RESET_SETTING)


def read_registration(tx: Transaction, call: Call) -> RegistrationShown:
    """Read who may register apps."""
    policy, people = call.services.settings.registration, call.services.developers.registrants
    return RegistrationShown(policy.mode.value, people or "nobody", policy.unused_lifetime)


def list_invitations(tx: Transaction, call: Call) -> Invitations:
    """List the registration tokens that can still be used."""
    return Invitations(
        [
            _shown_invitation(invitation)
            for invitation in tokens.live_invitations(tx, call.actor, call.now)
        ]
    )


def invite(tx: Transaction, call: Call) -> InvitationMade | tuple[MetadataError, ...]:
    """Issue a registration token."""
    body = call.input(InvitationWanted)
    fresh = InvitationSecrets(call.new_id("in"), call.new_secret(Prefix.INVITATION))
    invitation = WantedInvitation(body.note, body.uses, Lifetime(body.lifetime))
    key = call.services.fingerprints
    made = tokens.invite(tx, call.actor, key, invitation, fresh, call.now)
    if isinstance(made, tuple):
        return made
    return InvitationMade(fresh.token.reveal(), _shown_invitation(made))


def _registration_off(settings: Settings) -> str:
    if settings.registration.mode is RegistrationMode.OFF:
        return 'Nothing can be registered with it while registration.mode is "off".'
    return ""


def withdraw_invitation(tx: Transaction, call: Call) -> None:
    """Withdraw a registration token."""
    if not tokens.withdraw(tx, call.actor, call.named("invitation_id"), call.now):
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this invitation does not exist", "admin.invitation"
        )


def _shown_invitation(invitation: InitialAccessToken) -> InvitationShown:
    return converted(InvitationShown, invitation)


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
    buttons=(
        Button(
            "withdraw",
            translatable("Withdraw invitation"),
            translatable(
                "No app can register itself with it any more. Apps registered with it are not "
                "affected."
            ),
            translatable("Invitation withdrawn. Apps registered with it are not affected."),
            shown_for=on(InvitationShown),
        ),
    ),
    commands=(Command("registration withdraw"),),
)

LIST_INVITATIONS = Operation(
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
    LIST_INVITATIONS,
    INVITE,
    WITHDRAW_INVITATION,
)
