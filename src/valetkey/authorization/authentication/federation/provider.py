"""What a provider is: it sends a person away to prove who they are, and reads the answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from valetkey.config.sections.federation import ProviderSettings
from valetkey.fetch.door import Door, Fetched, Unfetchable
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Secret

FEDERATED = "fed"
"""The authentication method of who was vouched for; RFC 8176 has no word for it."""

LONGEST_CODE = 2_000
LONGEST_SUBJECT = 255
"""Characters of a `sub` (OpenID Connect Core section 2)."""

_LONGEST_EMAIL = 254
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Claimed:
    """Who a provider says that somebody is. `issuer` and `subject` are what it never says twice.

    `email` is "" where the provider names none, and `email_verified` whether it has checked it.
    """

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    username: str = ""

    @property
    def proven_email(self) -> str:
        """The address that this person can be reached at for certain; "" for none."""
        return self.email if self.email_verified else ""


@dataclass(frozen=True, slots=True, repr=False)
class Journey:
    """What one trip to a provider proves itself by; drawn fresh for each. Never printed."""

    state: str
    nonce: str
    verifier: str
    callback: str
    fresh: bool = False
    """Whether the person must prove it anew, whoever they are signed in as over there."""


class Provider(Protocol):
    """One other server."""

    @property
    def settings(self) -> ProviderSettings:
        """As the operator describes it."""
        ...

    async def leave_for(self, journey: Journey) -> str:
        """Where the browser is sent. Refused where the provider cannot be asked."""
        ...

    async def read(self, answer: Mapping[str, str], journey: Journey, now: Instant) -> Claimed:
        """Who came back, from the parameters of the callback.

        Refused for anything that does not prove it; the state was compared before.
        """
        ...


@dataclass(frozen=True, slots=True)
class Line:
    """The line to one provider: its description, our secret there, the door out."""

    settings: ProviderSettings
    secret: Secret = field(repr=False)
    door: Door
    now: Callable[[], Instant]


def unusable(provider: ProviderSettings, check: str, received: str = "") -> Refused:
    """No, because the provider's answer proves nothing; what exactly is for the record."""
    return Refused(
        Refusal(
            ErrorCode.ACCESS_DENIED,
            "the other server did not confirm who you are; nothing was changed",
            f"federation.{check}",
            f"an answer of {provider.id}",
            received,
        )
    )


def code_of(answer: Mapping[str, str], provider: ProviderSettings) -> str:
    """The code in the callback; refused where there is none (RFC 6749 section 4.1.2)."""
    if answer.get("error"):
        check = "declined" if answer["error"] == "access_denied" else "error"
        raise unusable(provider, check)
    code = answer.get("code", "")
    if not code or len(code) > LONGEST_CODE or not code.isascii() or not code.isprintable():
        raise unusable(provider, "code")
    return code


def plain(value: object, longest: int = _LONGEST_NAME) -> str:
    """A text of theirs that may be shown, "" for anything else."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        return ""
    return value.strip()


def address(value: object) -> str:
    """An e-mail address of theirs, "" for what is none."""
    text = plain(value, _LONGEST_EMAIL)
    name, at, domain = text.rpartition("@")
    fine = name and at and domain and "@" not in name and not set(text) & set(' ,;:<>()[]\\"')
    return text if fine else ""


async def fetched(asking: Awaitable[Fetched], provider: ProviderSettings, what: str) -> Fetched:
    """What the provider answered; refused if it did not, or not with 200."""
    try:
        answered = await asking
    except Unfetchable as error:
        raise unusable(provider, what, error.check) from None
    if answered.status != HTTPStatus.OK:
        raise unusable(provider, what, f"status {answered.status}")
    return answered


def one_line(token: str) -> str:
    """A token of theirs as a header can carry it; what could not is replaced, and gives nothing."""
    return token if token.isascii() and token.isprintable() and " " not in token else "-"
