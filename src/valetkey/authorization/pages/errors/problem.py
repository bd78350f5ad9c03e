"""The page for an error that must not, or cannot, be sent back to the app."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.kernel.refusal import ErrorCode


class Mender(StrEnum):
    """Who can mend it."""

    VISITOR = "visitor"
    DEVELOPER = "developer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """Tell the person what it means for them, and whoever can mend it what exactly was wrong.

    `sentence` names the parameter at fault ("redirect_uri is not registered for this client") and
    holds nothing that the request held; it is "" where the heading says it all.
    """

    template: ClassVar[str] = "errors/problem.html"

    code: ErrorCode
    sentence: str
    mender: Mender
    #: "VK-7F3K-9QXM-2RTD": what `valetkey explain` takes; empty when no record was kept.
    reference: str = ""
    #: An app's request was refused, and its team can read the record.
    of_app: bool = False
    #: The Host for which this server does not answer; it answers for that of `issuer`.
    wrong_host: str = ""
    issuer: str = ""
