"""The consent page: what an app wants, and the person's yes or no to each part of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.layout.contexts import AskingApp, SignedInPerson


class ChangedPart(StrEnum):
    """What an app changed about itself since the person last allowed it."""

    NAME = "name"
    LOGO = "logo"
    TERMS = "terms"  # or its privacy policy
    PLACE = "place"  # where it takes people back to


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the app; `before` is what it was, empty where there is nothing to quote."""

    part: ChangedPart
    before: str = ""


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One scope in plain words.

    `sentence` continues "Notes Printer wants to …": a verb first, small letter, no full stop
    ("read your notes"). A `required` scope has a mark in place of a checkbox.
    """

    scope: str
    sentence: str
    required: bool = False
    #: False for a box the person had cleared when the page is shown again.
    chosen: bool = True


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One thing that the app wants to know by itself; the sentence is as that of a scope."""

    claim: str
    sentence: str
    chosen: bool = True


@dataclass(frozen=True, slots=True)
class ConsentPage:
    """Ask a signed-in person whether an app may do what it wants.

    Posts `csrf`, `decision=allow` or `decision=deny`, and `scope` or `claim` once for each box left
    checked (required scopes have no box and are not posted). Another account: `csrf` to
    `switch_account_action`.
    """

    template: ClassVar[str] = "visitor/consent.html"

    action: str
    switch_account_action: str
    csrf: str
    app: AskingApp
    person: SignedInPerson
    scopes: tuple[ScopeLine, ...]
    #: Seconds the access can last at most.
    lasts: int
    #: Where access can be ended earlier; empty while there is no such page.
    account_url: str = ""
    claims: tuple[ClaimLine, ...] = ()
    changes: tuple[Change, ...] = ()
    #: The person pressed Allow with every box cleared.
    nothing_chosen: bool = False
