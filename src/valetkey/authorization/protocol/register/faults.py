"""What can be wrong with a field or an input: codes for programs, sentences for people.

Interfaces for programs return the text, forms show the sentence in the language of the user.

Imports of users store codes, and forms of the console show them in the user's language. Interfaces
for programs return the text.
"""

import re
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.authorization.protocol.register.fault_texts import FAULTS
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.shapes import MOST_ERRORS, MUST, errors_of, requirement
from valetkey.kernel.text import translatable

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


def fault(field: str, code: str, /, detail: str = "", **values: object) -> MetadataError:
    """Return the error of this code about a field.

    A `detail` replaces the text of the code for programs.
    """
    filled = {name: str(value) for name, value in values.items()}
    return MetadataError(field, detail or FAULTS[code].detail % filled, code, filled)


def refused_uri(name: str, refusal: Refusal) -> MetadataError:
    """Return the error of a URL that `check_redirect_uri` refused."""
    return MetadataError(name, refusal.description, refusal.check)


def faults_of(
    error: msgspec.ValidationError, value: object, kind: object
) -> tuple[MetadataError, ...]:
    """Return everything that is invalid in a value which is not of the type `kind`, at most 100."""
    errors = tuple(
        MetadataError(field_error.pointer.removeprefix("/"), field_error.detail)
        for field_error in islice(errors_of(value, kind), MOST_ERRORS)
    )
    return errors or (fault_of(error),)


NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
"""The pattern of a line of text: no control characters."""


CODE = "code"
VALUES = "values"
"""The members of `Meta.extra` with the code about a pattern, and the values that fill its text."""


def matching(pattern: str, code: str, **values: object) -> msgspec.Meta:
    """Return the constraint of a text that matches the pattern; the reason `code` explains it."""
    return msgspec.Meta(
        pattern=pattern, extra={CODE: code, VALUES: values, MUST: REASONS[code] % values}
    )


_WHERE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([a-z_]+)|\[(\d+)\]|\[\.\.\.\]")


def fault_of(error: msgspec.ValidationError) -> MetadataError:
    """Return which field of an input is invalid, as in `redirect_uris/0`, and why."""
    message = str(error)
    where = _WHERE.search(message)
    path = "" if where is None else where[1]
    steps = [step[1] or step[2] or "" for step in _STEP.finditer(path)]
    detail = message[: where.start()] if where else message
    missing = re.search(r"missing required field `([a-z_]+)`", detail)
    if missing:
        return MetadataError("/".join([*steps, missing[1]]), "is missing", "missing")
    if "unknown field" in detail:
        return MetadataError("/".join(steps), "has an unknown member", "unknown")
    return MetadataError("/".join(steps), requirement(message))


_MUST_BE = "must be "

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "missing": translatable("is missing"),
        "unknown": translatable("has an unknown member"),
        "type.string": translatable("must be text"),
        "type.integer": translatable("must be a whole number"),
        "type.number": translatable("must be a number"),
        "type.array": translatable("must be a list"),
        "type.boolean": translatable("must be true or false"),
        "type.object": translatable("must be an object"),
        "length.none": translatable("must not be empty"),
        "length.least": translatable("must have at least %(least)s characters"),
        "length.most": translatable("must have at most %(most)s characters"),
        "number.least": translatable("must be at least %(least)s"),
        "number.most": translatable("must be at most %(most)s"),
        "text.controls": translatable("must not have control characters"),
        "text.printable": translatable("must be at most %(most)s printable characters"),
        "text.some": translatable("must be %(least)s to %(most)s printable characters"),
        "text.trimmed": translatable(
            "must be at most %(most)s printable characters, without space at the ends"
        ),
        "text.lines": translatable("must be lines of printable characters, %(most)s together"),
        "text.json": translatable("must be valid JSON"),
        "username.form": translatable("must be 1 to %(most)s characters without spaces and @"),
        "username.id": translatable(
            "must be a name without a colon, of letters or at most 15 digits, "
            "unlike an id of this server"
        ),
        "username.markup": translatable('must be a name without any of < > & " ` \\'),
        "username.invisible": translatable("must be visible characters only"),
        "username.reserved": translatable(
            "must be another one: users could mistake this name for the operator of this server"
        ),
        "username.alphabets": translatable(
            "must be written in one alphabet per word: letters of different alphabets look alike"
        ),
        "user.taken": translatable(
            "must be another one: this user ID, username or email address is taken"
        ),
        "claim.email": translatable("must be an email address, such as ada@example.com"),
        "claim.link": translatable("must be an https address"),
        "claim.birthdate": translatable("must be YYYY-MM-DD, YYYY, or 0000-MM-DD without the year"),
        "claim.zoneinfo": translatable("must be the name of a time zone, such as Europe/Berlin"),
        "claim.locale": translatable("must be a language tag, such as en or de-AT"),
        "claim.phone_number": translatable(
            "must be an international number, such as +442079460000"
        ),
        "claim.unverifiable": translatable("must be absent without a phone_number"),
        "attribute.name": translatable("must be a letter, then at most 39 letters, digits and _"),
        "attribute.undeclared": translatable("is not declared"),
        "attribute.value": translatable("must be a value that the attribute allows"),
        "attribute.schema": translatable("must fit the schema of the attribute"),
        "attribute.size": translatable("must have at most %(most)s bytes of JSON together"),
        "attribute.json": translatable(
            "must have whole numbers below 2**53 and at most six levels of lists and objects"
        ),
        "name.taken": translatable("must be another one: this one is taken"),
        "name.unusable": translatable("must be another one: this one is taken or cannot be used"),
        "id.form": translatable("must be lower-case letters, digits and hyphens, at most 31"),
        "issuer.taken": translatable("must be another one: a provider has this issuer"),
        "id.most": translatable("must be one of at most %(most)s providers"),
        "names.most": translatable("must be at most %(most)s names"),
        "names.form": translatable("must be names without spaces and quotes"),
        "group.form": translatable(
            "must be at most 80 letters without accents, digits and . _ -, such as sales-cologne: "
            "apps receive this name"
        ),
        "role.form": translatable(
            "must be at most 80 letters without accents, digits and . _ : -, such as editor"
        ),
        "scope.form": translatable(
            "must be at most 100 characters, such as calendar:read, without spaces, letters with "
            "accents and %(without)s"
        ),
        "pair.form": translatable("must be a name without spaces, and then its description"),
        "color.form": translatable("must be # and six hexadecimal digits, such as #1a73e8"),
        "url.form": translatable(
            "must be a URL of at most 500 characters, such as https://example.com/events, without "
            "spaces and letters with accents"
        ),
        "event.form": translatable("must be the name of one event, such as user.registered"),
        "choice.form": translatable("must be one of: %(names)s"),
        "header.form": translatable(
            "must be one line, such as Bearer 5f3a, without letters with accents"
        ),
        "group.unknown": translatable("must be an existing group"),
        "app.unknown": translatable("must be the name or client ID of an app"),
        "app.ambiguous": translatable("must be a client ID: several apps have this name"),
        "api.unknown": translatable("must be the name or identifier of an API"),
        "api.ambiguous": translatable("must be an identifier: several APIs have this name"),
        "stream.polled": translatable("must be empty without an address"),
        "stream.email": translatable("must be another one: the app lacks the scope email"),
        "row.hash": translatable("unknown format"),
        "row.hash.cost": translatable("too costly to verify"),
        "row.hash.broken": translatable("incomplete, or its salt or its digest is too short"),
        "row.hash.system": translatable("this system cannot verify this format"),
        "row.email": translatable("an account with this address already exists"),
        "row.username": translatable("an account with this name already exists"),
        "row.uid": translatable("an account with this number already exists"),
        "row.group": translatable("there is no group %(name)s"),
        "row.repeated": translatable("the same as in row %(row)s"),
        "row.size": translatable("the row has more than %(size)s KiB"),
        "row.cells": translatable("the row has more cells than the heading"),
        "row.number": translatable("the row has a number that is out of range"),
        "row.json": translatable("the row is not JSON"),
        "row.stopped": translatable("the import was stopped"),
        "file.none": translatable("choose a file"),
        "file.open": translatable(
            "too many imports are unfinished: import or discard one of them first"
        ),
        "file.encoding": translatable("the file is not UTF-8: save it as CSV UTF-8"),
        "file.empty": translatable("the file has no users"),
        "file.users": translatable("the file has more than %(most)s users: split it"),
        "file.array": translatable("the file is not a JSON array of objects"),
        "file.end": translatable("the file is not JSON: it ends too early"),
        "file.json": translatable("the file is not JSON: error in line %(line)s"),
        "file.csv": translatable("row %(row)s is not CSV"),
        "file.quotation": translatable("row %(row)s is not CSV: a quotation mark is not closed"),
        "file.text": translatable("row %(row)s is not CSV: text follows a closing quotation mark"),
        "file.cell": translatable("row %(row)s is not CSV: a cell is too long"),
        "file.password": translatable(
            'the column "password": only hashes are imported, as "password_hash"'
        ),
        "file.column": translatable("unknown columns: %(column)s; known are %(columns)s"),
        "file.columns": translatable('there are two columns "%(column)s"'),
        "file.heading": translatable('the first row is the heading, and has no "%(column)s"'),
    }
)
"""The template of each code. A code of `row` or `file` is only about an import."""


class Reason(Struct, frozen=True):
    """A code about a field, or about the whole input if the field is ""; `values` fill it."""

    field: str
    code: str
    values: Values = msgspec.field(default_factory=dict[str, str])

    @property
    def text(self) -> str:
        """The template; the code itself if a newer version stored it."""
        return REASONS.get(self.code, self.code)

    def explain(self, gettext: Callable[[str], str] = str) -> str:
        """Return the filled template, in the language of `gettext`."""
        return gettext(self.text) % self.values


def reason(field: str, code: str, **values: object) -> Reason:
    """Return the reason of this code about a field."""
    return Reason(field, code, {name: str(value) for name, value in values.items()})


def input_fault(field: str, code: str, **values: object) -> MetadataError:
    """Return the error of this code about a field."""
    input_reason = reason(field, code, **values)
    return MetadataError(
        field, input_reason.explain().removeprefix(_MUST_BE), code, input_reason.values
    )


def reason_of(fault: MetadataError) -> Reason | None:
    """Return the reason of an error; None if its code has no template here."""
    return Reason(fault.field, fault.code, fault.values) if fault.code in REASONS else None
