"""Sentences that explain the faults of a form field, and what to do."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from valetkey.authorization.model.register.fields import Editor
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.kernel.words import translatable

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "1 to 80 printable characters": translatable(
            "Enter a name of at most 80 visible characters."
        ),
        "at most 500 printable characters": translatable("Use at most 500 visible characters."),
        "written in one alphabet per word: letters of different alphabets look alike": translatable(
            "Use letters of one alphabet in each word: letters of different alphabets look alike."
        ),
        "visible characters only": translatable("Use visible characters only."),
        "another one: users could mistake this name for this server": translatable(
            "Choose another name: users could mistake this app for the service itself."
        ),
        "another one: a verified app has this name": translatable(
            "Choose another name: a verified app already uses it."
        ),
        "an https address": translatable(
            "Enter the complete URL, beginning with https:// and without quotes or spaces."
        ),
        "at least one: users are sent back to it": translatable("Enter at least one redirect URI."),
        "each only once": translatable("Enter each URL only once."),
        "at most 20": translatable("Enter at most 20 URLs."),
        "only what can be registered here": translatable("Choose one of the listed options."),
        "only native apps may use a private scheme": translatable(
            "Only mobile and desktop apps can use a scheme of their own. Begin with https://."
        ),
        "it must be an absolute https URL in lower case, without user name": translatable(
            "Enter the complete URL, with scheme and host in lower case and without a username, "
            "such as https://app.example.com/callback."
        ),
        "http is only for 127.0.0.1, [::1] and localhost; use https": translatable(
            "http is only for 127.0.0.1, [::1] and localhost, while you develop. Use https."
        ),
        "it leads back to this server": translatable(
            "This URL belongs to this server. Enter a URL of your app."
        ),
        "it must have between 1 and 2000 bytes": translatable(
            "Use at most 2,000 characters; put variable data into the state parameter."
        ),
        "it must be ASCII: write international names as xn--": translatable(
            "Enter an internationalized host name in its xn-- form, and percent-encode other "
            "non-ASCII characters."
        ),
        "its query must not have what answers bring, such as state": translatable(
            "Remove parameters such as state, code and error from the URL: responses add them."
        ),
        "it must not have a fragment": translatable(
            "Remove # and everything after it: browsers do not send it."
        ),
        "wildcards are not known: register each address, or use state": translatable(
            "URLs must match exactly, and * is not a wildcard. Enter each URL, or put variable "
            "data into the state parameter."
        ),
        "it must not contain spaces, controls or backslashes": translatable(
            "Remove spaces and backslashes."
        ),
        "the implicit grant needs https or a loopback address": translatable(
            "The implicit grant, which is enabled for this app, requires https or a loopback "
            "address."
        ),
        "the profile modern has no implicit grant": translatable(
            "Disable the implicit grant below first: this profile does not allow it."
        ),
        "the profile modern has no password grant": translatable(
            "Disable the password grant below first: this profile does not allow it."
        ),
    }
)
"""The sentence shown for each detail of a fault; details are also read by programs."""

_PREFIX = "this redirect URI cannot be used: "
_PLACES = MappingProxyType({"grant_types": "profile", "default_scopes": "scopes"})
_KNOWN = frozenset(field.name for field in fields_of(Editor.DEVELOPER))


def sentence(detail: str) -> str:
    """Return the sentence for the detail of a fault; the detail itself if there is none."""
    detail = detail.removeprefix(_PREFIX)
    return SENTENCES.get(detail, detail)


def by_field(faults: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the first sentence of each field; what belongs to no field is under `form`.

    That is left out while a field is invalid: it may follow from the field, as a preset's sign-out
    address follows from the redirect URI.
    A redirect URI is `redirect_uris/0`, counted among those that were typed.
    """
    found: dict[str, str] = {}
    for name, detail in faults:
        start, slash, number = name.partition("/")
        start = _PLACES.get(start, start)
        if start not in _KNOWN:
            start = "form"
        place = f"{start}/{number}" if start == "redirect_uris" and slash else start
        found.setdefault(place, sentence(detail))
    if len(found) > 1:
        found.pop("form", None)
    return found
