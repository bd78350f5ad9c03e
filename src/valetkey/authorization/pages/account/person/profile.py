"""What people say of themselves, and the form that changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from valetkey.authorization.deeds.account.profile import ProfileFault


@dataclass(frozen=True, slots=True)
class ProfilePage:
    """Show the fields as they are, or as they were `typed`.

    Posts `csrf`, `mark` and every field. What another window wrote meanwhile is in `stored`, by
    field, where it differs from what was typed.
    """

    template: ClassVar[str] = "account/person/profile.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    action: str
    csrf: str
    #: The state from which the form is filled in.
    mark: str
    typed: Mapping[str, str]
    email: str
    email_verified: bool
    saved: bool = False
    faults: Mapping[str, ProfileFault] = field(default_factory=dict[str, ProfileFault])
    overtaken: bool = False
    stored: Mapping[str, str] = field(default_factory=dict[str, str])
