"""What can be wrong with a field, as codes: one text for programs, one sentence for people.

Interfaces for programs return the text, forms show the sentence in the language of the user.
"""

import re
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.kernel.refusal import Refusal
from valetkey.kernel.shapes import MOST_ERRORS, errors_of
from valetkey.kernel.words import translatable

Values = Mapping[str, str]
"""What fills the places of a text or a sentence, by name."""


class MetadataError(Struct, frozen=True):
    """An error in client metadata: the field and what would be valid.

    `code` is "" for an error that forms have no sentence for; `values` fill the sentence.
    """

    field: str
    detail: str
    code: str = ""
    values: Values = msgspec.field(default_factory=dict[str, str])


class FaultText(Struct, frozen=True):
    """The text of a code for programs, and its sentence for people, marked for translation."""

    detail: str
    sentence: str


FAULTS: Mapping[str, FaultText] = MappingProxyType(
    {
        "name.length": FaultText(
            "%(least)s to %(most)s printable characters",
            translatable("Enter a name of at most %(most)s visible characters."),
        ),
        "text.length": FaultText(
            "at most %(most)s printable characters",
            translatable("Use at most %(most)s visible characters."),
        ),
        "name.alphabets": FaultText(
            "written in one alphabet per word: letters of different alphabets look alike",
            translatable(
                "Use letters of one alphabet in each word: letters of different alphabets look "
                "alike."
            ),
        ),
        "name.invisible": FaultText(
            "visible characters only", translatable("Use visible characters only.")
        ),
        "name.reserved": FaultText(
            "another one: users could mistake this name for this server",
            translatable(
                "Choose another name: users could mistake this app for the service itself."
            ),
        ),
        "name.verified": FaultText(
            "another one: a verified app has this name",
            translatable("Choose another name: a verified app already uses it."),
        ),
        "link.form": FaultText(
            "an https address",
            translatable(
                "Enter the complete URL, beginning with https:// and without quotes or spaces."
            ),
        ),
        "redirect_uris.none": FaultText(
            "at least one: users are sent back to it",
            translatable("Enter at least one redirect URI."),
        ),
        "redirect_uris.repeated": FaultText(
            "each only once", translatable("Enter each URL only once.")
        ),
        "redirect_uris.many": FaultText(
            "at most %(most)s", translatable("Enter at most %(most)s URLs.")
        ),
        "redirect_uris.implicit": FaultText(
            "the implicit grant needs https or a loopback address",
            translatable(
                "The implicit grant, which is enabled for this app, requires https or a loopback "
                "address."
            ),
        ),
        "scopes.offered": FaultText(
            "only what can be registered here", translatable("Choose one of the listed options.")
        ),
        "profile.implicit": FaultText(
            "the profile %(profile)s has no implicit grant",
            translatable("Disable the implicit grant below first: this profile does not allow it."),
        ),
        "profile.password": FaultText(
            "the profile %(profile)s has no password grant",
            translatable("Disable the password grant below first: this profile does not allow it."),
        ),
    }
)
"""The texts of each code of these rules."""

REDIRECT_URI: Mapping[str, str] = MappingProxyType(
    {
        "redirect_uri.scheme": translatable(
            "Only mobile and desktop apps can use a scheme of their own. Begin with https://."
        ),
        "redirect_uri.form": translatable(
            "Enter the complete URL, with scheme and host in lower case and without a username, "
            "such as https://app.example.com/callback."
        ),
        "redirect_uri.http": translatable(
            "http is only for 127.0.0.1, [::1] and localhost, while you develop. Use https."
        ),
        "redirect_uri.own": translatable(
            "This URL belongs to this server. Enter a URL of your app."
        ),
        "redirect_uri.length": translatable(
            "Use at most 2,000 characters; put variable data into the state parameter."
        ),
        "redirect_uri.ascii": translatable(
            "Enter an internationalized host name in its xn-- form, and percent-encode other "
            "non-ASCII characters."
        ),
        "redirect_uri.answer": translatable(
            "Remove parameters such as state, code and error from the URL: responses add them."
        ),
        "redirect_uri.fragment": translatable(
            "Remove # and everything after it: browsers do not send it."
        ),
        "redirect_uri.wildcard": translatable(
            "URLs must match exactly, and * is not a wildcard. Enter each URL, or put variable "
            "data into the state parameter."
        ),
        "redirect_uri.characters": translatable("Remove spaces and backslashes."),
    }
)
"""The sentences about a URL, by the check of `check_redirect_uri`, whose refusal has the text."""

SENTENCES: Mapping[str, str] = MappingProxyType(
    {**{code: text.sentence for code, text in FAULTS.items()}, **REDIRECT_URI}
)
"""The sentence of each code."""


def fault(name: str, code: str, **values: object) -> MetadataError:
    """Return the error of this code about the field `name`."""
    filled = {each: str(value) for each, value in values.items()}
    return MetadataError(name, FAULTS[code].detail % filled, code, filled)


def refused_uri(name: str, refusal: Refusal) -> MetadataError:
    """Return the error of a URL that `check_redirect_uri` refused."""
    return MetadataError(name, refusal.description, refusal.check)


def faults_of(
    error: msgspec.ValidationError, value: object, kind: object
) -> tuple[MetadataError, ...]:
    """Return everything that is invalid in a value which is not of the type `kind`, at most 100."""
    found = tuple(
        MetadataError(each.pointer.removeprefix("/"), each.detail)
        for each in islice(errors_of(value, kind), MOST_ERRORS)
    )
    return found or (fault_of(error),)


NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
"""The pattern of a line of text: no control characters."""

_WHERE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([a-z_]+)|\[(\d+)\]|\[\.\.\.\]")


def fault_of(error: msgspec.ValidationError) -> MetadataError:
    """Return which field of an input is invalid, as in `redirect_uris/0`, and why."""
    message = str(error)
    where = _WHERE.search(message)
    path = "" if where is None else where[1]
    steps = [step[1] or step[2] or "" for step in _STEP.finditer(path)]
    detail = message[: where.start()] if where else message
    detail = detail.replace("Expected `str` matching regex", "must match")
    missing = re.search(r"missing required field `([a-z_]+)`", detail)
    if missing:
        return MetadataError("/".join([*steps, missing[1]]), "is missing", "missing")
    if "unknown field" in detail:
        return MetadataError("/".join(steps), "has an unknown member", "unknown")
    return MetadataError("/".join(steps), detail)
