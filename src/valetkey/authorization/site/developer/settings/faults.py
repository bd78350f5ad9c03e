"""Sentences that explain the faults of a form field, and what to do."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from valetkey.authorization.model.register.fields import Editor
from valetkey.authorization.protocol.register.client_metadata import fields_of
from valetkey.kernel.words import translatable

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "1 to 80 printable characters": translatable(
            "Write a name of at most 80 characters, all of which can be seen."
        ),
        "at most 500 printable characters": translatable(
            "Use at most 500 characters, all of which can be seen."
        ),
        "each word in one script: letters of different scripts look alike": translatable(
            "Use letters of one alphabet in each word: those of different alphabets look alike."
        ),
        "characters that can be seen": translatable("Use characters that can be seen."),
        "another one: this name would make people think of this server": translatable(
            "Choose another name: users could mistake this app for the service itself."
        ),
        "another one: a verified app is called so": translatable(
            "Choose another name: a verified app already uses it."
        ),
        "an https address": translatable(
            "Write the whole address, beginning with https:// and without quotes or spaces."
        ),
        "at least one: users are sent back to it": translatable("Enter at least one redirect URI."),
        "each only once": translatable("Write each address only once."),
        "at most 20": translatable("Write at most 20 addresses."),
        "only what can be registered here": translatable(
            "Choose among what is listed: something else was asked for."
        ),
        "only native apps may use a private scheme": translatable(
            "Only mobile and desktop apps can use a scheme of their own. Begin with https://."
        ),
        "it must be an absolute https URL in lower case, without user name": translatable(
            "Write the whole address, with scheme and host in lower case and without a "
            "username, such as https://app.example.com/callback."
        ),
        "http is only for 127.0.0.1, [::1] and localhost; use https": translatable(
            "http is only for 127.0.0.1, [::1] and localhost, while you develop. Use https."
        ),
        "it leads back to this server": translatable(
            "This address is one of this server itself. Write one of your app."
        ),
        "it must have between 1 and 2000 bytes": translatable(
            "Use at most 2,000 characters; put what varies into the state parameter."
        ),
        "it must be ASCII: write international names as xn--": translatable(
            "Write a name with letters beyond a to z in its form for machines, which begins with"
            " xn--, and other such letters as % with two digits."
        ),
        "its query must not have what answers bring, such as state": translatable(
            "Leave parameters such as state, code and error out of the address: answers bring them."
        ),
        "it must not have a fragment": translatable(
            "Leave out # and what follows: browsers do not send it."
        ),
        "wildcards are not known: register each address, or use state": translatable(
            "Addresses are compared letter by letter, so * stands for nothing. Write each address,"
            " or put what varies into the state parameter."
        ),
        "it must not contain spaces, controls or backslashes": translatable(
            "Leave out spaces and backslashes."
        ),
        "the implicit grant needs https or a loopback address": translatable(
            "The implicit grant, which is on for this app, needs https or a loopback address."
        ),
        "the profile modern has no implicit grant": translatable(
            "Disable the implicit grant below first: this profile does not allow it."
        ),
        "the profile modern has no password grant": translatable(
            "Disable the password grant below first: this profile does not allow it."
        ),
    }
)
"""By what the rules say, which is written for programs as well."""

_PREFIX = "this redirect URI cannot be used: "
_PLACES = MappingProxyType({"grant_types": "profile", "default_scopes": "scopes"})
_KNOWN = frozenset(field.name for field in fields_of(Editor.DEVELOPER))


def sentence(detail: str) -> str:
    """The sentence for this detail of a fault; the detail itself where there is none."""
    detail = detail.removeprefix(_PREFIX)
    return SENTENCES.get(detail, detail)


def by_field(faults: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The first sentence of each field of the form; what belongs to none is under `form`.

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
    return found
