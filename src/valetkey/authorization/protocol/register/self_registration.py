"""Clients that register themselves: by requests (RFC 7591) or by documents at their URLs.

The declaration of each field says whether it is reduced: `FieldRule.unusable`.

Source: draft-ietf-oauth-client-id-metadata-document, as the MCP authorization specification of
2025-11-25 uses it. Everything else about such a client is judged as at dynamic registration.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import (
    LISTS,
    ApplicationType,
    AuthenticationMethod,
    ClientType,
    Editor,
    Field,
    FieldType,
    GrantTypeName,
    OpenIdRegistration,
    UnusableValue,
    is_by_secret,
)
from valetkey.authorization.protocol.client_authentication import REGISTERED
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    fields_of,
    with_values,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.protocol.register.openid_rules import GRANT_TYPES_OF, host_of
from valetkey.kernel.moment import Lifetime, days, hours, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.url import has_private_scheme, only_for_native, parse_url
from valetkey.web.body import read_json

Faults = tuple[MetadataError, ...]


class LeftOut(Struct, frozen=True):
    """A value that was not kept, and what would be valid."""

    field: str
    value: str
    detail: str


class Reduced(Struct, frozen=True):
    """Metadata without what cannot be kept, and the errors that are left: refuse these."""

    metadata: ClientMetadata
    left_out: tuple[LeftOut, ...]
    faults: Faults


def reduced(
    metadata: ClientMetadata, judge: Callable[[ClientMetadata], Faults], otherwise: ClientMetadata
) -> Reduced:
    """Return what can be kept of the metadata, by the rules in `judge`.

    A field that cannot be kept, or no entry of which can, has its value in `otherwise`.
    """
    metadata = _without_repeats(metadata)
    left_out: list[LeftOut] = []
    replaced: set[str] = set()
    while True:
        faults = judge(metadata)
        values: dict[str, object] = {}
        for name, places in _places(faults).items():
            field = FIELDS[name]
            before = field.value_of(metadata)
            after = _kept(field, before, places)
            if after is None:
                # Once: the value in `otherwise` may be invalid as well.
                after = before if name in replaced else field.value_of(otherwise)
                replaced.add(name)
            if after == before:
                continue
            values[name] = after
            left_out += _told(name, before, places)
        # Every round removes entries or replaces fields, so it ends; values depend on few others.
        if not values:
            return Reduced(metadata, tuple(left_out), faults)
        metadata = with_values(metadata, values)


def _places(faults: Faults) -> Mapping[str, Mapping[str, str]]:
    """Return the details by field and position, "" for the whole field."""
    details: dict[str, dict[str, str]] = {}
    for error in faults:
        name, _, position = error.field.partition("/")
        details.setdefault(name, {}).setdefault(position, error.detail)
    return {name: details[name] for name in FIELDS if name in details}


def _kept(field: Field, value: object, places: Collection[str]) -> object:
    """Return the value without its invalid entries; None if nothing of it can be kept."""
    rule = field.rule
    if rule.unusable is UnusableValue.REFUSED:
        return value
    if rule.kind not in LISTS:
        return None
    entries = cast("tuple[object, ...]", value)
    kept = tuple(entry for number, entry in enumerate(entries) if str(number) not in places)
    if kept or not entries:
        return kept
    return entries if rule.unusable is UnusableValue.LEFT_OUT_BESIDE_OTHERS else None


def _told(name: str, value: object, places: Mapping[str, str]) -> Iterable[LeftOut]:
    if not isinstance(value, tuple):
        return [LeftOut(name, str(value), next(iter(places.values())))]
    entries = cast("tuple[object, ...]", value)
    numbers = sorted(int(number) for number in places if number)
    return [LeftOut(name, str(entries[number]), places[str(number)]) for number in numbers]


def _without_repeats(metadata: ClientMetadata) -> ClientMetadata:
    """Return the metadata with each entry of a list once: a repeated one adds nothing."""
    lists = {
        name: field.value_of(metadata) for name, field in FIELDS.items() if field.rule.kind in LISTS
    }
    once = {name: tuple(dict.fromkeys(value)) for name, value in lists.items()}
    values = {name: value for name, value in once.items() if value != lists[name]}
    return with_values(metadata, values) if values else metadata


# ruff: noqa: RUF001 - these letters are here because they look like others


# Lower-case letters that look like a Latin one, from the data of Unicode UTS 39, limited to scripts
# in which a Latin name can be imitated.
_LETTERS = {
    "a": "ɑαаᎪꓮᴀ",
    "b": "ƅβвьᏏᏴꓐꞵʙ",
    "c": "σсᏟᴄⲥꓚ",
    "d": "ԁᎠᏧꓒꓓᴅ",
    "e": "εеҽᎬⴹꓰꬲᴇ",
    "f": "ϝքẝꓝꞙꬵꜰ",
    "g": "ƍɡԍցᏀᏳᶃꓖɢ",
    "h": "нһհᎻᏂⲏꓧ",
    "j": "ʝϳјᎫꓙᴊ",
    "k": "κкᏦⲕꓗᴋ",
    "l": "iıɩɪιіᎥꙇⲓǀӏᏞⳑⵏꓡꓲʟ",
    "m": "μϻмᎷⲙꓟᴍ",
    "n": "ոռⲛꓠηɴŋ",
    "o": "οоօჿᴏᴑⲟⵔꓳꬽ",
    "p": "ρрᏢⲣꓑᴘ",
    "q": "ԛգզⵕ",
    "r": "ʀгᎡᎱᏒᴦⲅꓣꭇꭈ",
    "s": "ƽѕտᏕᏚꓢꜱ",
    "t": "τтᎢⲧꓔᴛ",
    "u": "ʋυսᴜꓴꞟꭎꭒ",
    "v": "νѵᏙᴠⴸꓦ",
    "w": "ɯѡԝաᎳᏔᴡꓪ",
    "x": "χхⲭⵝꓫꭓ",
    "y": "ɣʏγуүყᎩᎽᶌỿⲩꓬꭚ",
    "z": "ζᏃᴢꓜ",
}
_FOLDED = str.maketrans({other: letter for letter, others in _LETTERS.items() for other in others})

# Applied before lower-casing: these resemble another letter than their lower-case forms do.
_CAPITALS = str.maketrans(
    {"I": "l", "|": "l", "1": "l", "0": "o", "\u0397": "h", "\u039d": "n", "\u03a5": "y"}
)
# Signs and digits that are read as letters within a name.
_SIGNS = str.maketrans({"$": "s", "5": "s", "@": "a", "!": "l", "€": "e", "†": "t"})
# A number: digits that no letter follows. A single 0 or 1 after a letter is not: `paypa1`, `inf0`.
_NUMBER = re.compile(r"((?:(?<![^\W_])|(?<=[^\W\d_])(?![01](?!\d)))\d++(?!\w))")
_MARKS = str.maketrans(dict.fromkeys("™℠®©"))
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
_STYLED = re.compile(
    r"(?:LATIN (?:SMALL|CAPITAL) LETTER ([A-Z]) WITH .+"
    r"|NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER ([A-Z])"
    r"|REGIONAL INDICATOR SYMBOL LETTER ([A-Z]))"
)
_PAIRS = (("rn", "m"), ("vv", "w"))


def has_blank(text: str) -> bool:
    """Return whether it contains an invisible character that Unicode classifies as a letter."""
    return any(character in text for character in _BLANK)


def letters_of(text: str) -> str:
    """Return the letters and digits of a text without case, accents, width and style."""
    plain = unicodedata.normalize("NFKD", text.translate(_MARKS)).casefold()
    styled = "".join(map(_without_style, plain))
    return "".join(letter for letter in styled if letter.isalnum() and letter not in _BLANK)


def shape_of(text: str) -> str:
    """Return the visual skeleton of a text: equal for texts that look alike."""
    plain = as_letters(unicodedata.normalize("NFKD", text.translate(_MARKS)), _CAPITALS)
    shape = letters_of(as_letters(plain, _SIGNS)).translate(_FOLDED)
    for pair, letter in _PAIRS:
        shape = shape.replace(pair, letter)
    return shape


def as_letters(text: str, table: Mapping[int, str | int]) -> str:
    """Replace digits and signs that stand for letters, except in numbers: `user5`, `Area 51`."""
    parts = _NUMBER.split(text)
    return "".join(part if at % 2 else part.translate(table) for at, part in enumerate(parts))


def _without_style(letter: str) -> str:
    """Return the Latin letter under a stroke, hook or frame that NFKD keeps; else itself."""
    if letter.isascii():
        return letter
    match = _STYLED.fullmatch(unicodedata.name(letter, ""))
    return match[match.lastindex or 0].lower() if match else letter


RESERVED = ("valetkey", "administrator", "system", "security", "support", "verified")
"""Words that could make users mistake an app for this server, its operator, or a verified app."""

_MIXING = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts with letters that resemble those of another one."""


def name_fault(name: str, reserved: Collection[str]) -> str:
    """Return the code of why an app may not register itself with this name; "" if it may."""
    for word in name.split():
        if len({_script(letter) for letter in word} - {""}) > 1:
            return "name.alphabets"
    if any(unicodedata.category(letter) in {"Cf", "Co", "Cn", "Me"} for letter in name) or (
        has_blank(name)
    ):
        return "name.invisible"
    words = [word for word in reserved if letters_of(word)]
    for seen in (letters_of, shape_of):
        if any(taken in seen(name) for taken in map(seen, words)):
            return "name.reserved"
    return ""


def look_alike(name: str, others: Collection[str]) -> bool:
    """Return whether users could confuse one of these names with this one."""
    letters, shape = letters_of(name), shape_of(name)
    return bool(letters) and any(
        letters == letters_of(other) or shape == shape_of(other) for other in others
    )


def _script(letter: str) -> str:
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _MIXING else ""


_MOST_TOLD = 5
_LONGEST = 8_000
_MOST_ENTRIES = 200
_NAMELESS = "An app without a name"
_USUAL_METHOD = "client_secret_basic"
_ALWAYS = frozenset({"redirect_uris", "grant_types", "response_types", "scopes"})
"""Fields whose members are in every response."""


class _InvalidMember(Exception):
    """A member has an invalid value; the text says what would be valid."""


class SelfRules(Struct, frozen=True):
    """The permitted values of a self-registered app.

    `scopes` in the order in which it gets them; `id_token_algorithm` is the default.
    """

    grant_types: Collection[str]
    scopes: tuple[str, ...]
    id_token_algorithm: str
    reserved_names: Collection[str] = ()

    def widened(self, before: ClientMetadata) -> "SelfRules":
        """Return the rules for replacing a registration: what an operator added may stay."""
        added = tuple(name for name in before.scopes if name not in self.scopes)
        return replace(
            self,
            grant_types=(*self.grant_types, *before.grant_types),
            scopes=(*self.scopes, *added),
        )

    def read(
        self,
        members: Mapping[str, object],
        before: ClientMetadata,
        judge: Callable[[ClientMetadata], Sequence[MetadataError]],
    ) -> ClientMetadata:
        """Return the metadata to register; `before` has what an app cannot set itself.

        What these rules and those of `judge` do not allow is left out or replaced where the
        declaration of its field says so. Unknown members are ignored, and so are names and
        addresses in other languages; null omits a member (RFC 7592 section 2.2). Refused with a
        list of all errors, if some are left or a member has another JSON type.
        """
        requested = self._asked(members, before)
        kept = reduced(requested, lambda it: (*self._faults(it), *judge(it)), self._otherwise)
        if kept.faults:
            refuse_registration(kept.faults)
        return self._completed(kept.metadata, before)

    @property
    def _otherwise(self) -> ClientMetadata:
        # An answer that the app wants signed stays signed.
        signed = OpenIdRegistration(
            id_token_signed_response_alg=self.id_token_algorithm,
            userinfo_signed_response_alg=self.id_token_algorithm,
            introspection_signed_response_alg=self.id_token_algorithm,
        )
        return ClientMetadata(name="", openid=signed)

    def _asked(self, members: Mapping[str, object], before: ClientMetadata) -> ClientMetadata:
        """Return what an app asks for, with the defaults of a registration."""
        _refuse_statement(members)
        faults: list[MetadataError] = []
        values = {field.name: _read(field, members, faults) for field in fields_of(Editor.CLIENT)}
        if members.get("id_token_signed_response_alg") is None:
            values["id_token_signed_response_alg"] = self.id_token_algorithm
        method = values["token_endpoint_auth_method"]
        if method not in REGISTERED:
            method = _USUAL_METHOD
        response_types, grant_types = _types(values)
        redirect_uris: tuple[str, ...] = values["redirect_uris"]
        public = REGISTERED.get(method) == AuthenticationMethod.NONE
        if public and members.get("client_secret") is not None:
            faults.append(MetadataError("token_endpoint_auth_method", "none goes without a secret"))
        if not public and members.get("type") == ClientType.PUBLIC:
            faults.append(MetadataError("token_endpoint_auth_method", "none for public clients"))
        application_type = values["application_type"] or ApplicationType.WEB.value
        unsaid = members.get("application_type") is None
        if only_for_native(redirect_uris) or (
            unsaid and public and has_private_scheme(redirect_uris)
        ):
            # oidc-agent says web; a server may replace what is asked for (RFC 7591 section 2).
            application_type = ApplicationType.NATIVE.value
        values |= {
            "name": values["name"] or _usual_name(redirect_uris),
            "grant_types": grant_types,
            "response_types": response_types,
            "default_scopes": (),
            "required_scopes": (),
            "type": (ClientType.PUBLIC if public else ClientType.CONFIDENTIAL).value,
            "application_type": application_type,
            "token_endpoint_auth_method": method,
            "authentication_method": REGISTERED.get(method, method),
        }
        openid = replace(before.openid, sector="", encryption_keys="")
        metadata = with_values(replace(before, openid=openid), values)
        code = name_fault(metadata.name, self.reserved_names)
        if code and metadata.name != before.name:
            faults.append(fault("client_name", code))
        if faults:
            refuse_registration(faults)
        return metadata

    def _faults(self, metadata: ClientMetadata) -> Iterator[MetadataError]:
        """Return the errors by the rules for self-registered apps alone."""
        names = ", ".join(dict.fromkeys(self.grant_types))
        for number, name in enumerate(metadata.grant_types):
            if name not in self.grant_types:
                detail = f"this server gives the grant types {names}"
                yield MetadataError(f"grant_types/{number}", detail)
        for number, name in enumerate(metadata.scopes):
            if name not in self.scopes:
                yield MetadataError(f"scopes/{number}", f"some of: {' '.join(self.scopes)}")
        implicit = GrantTypeName.IMPLICIT in metadata.grant_types
        if implicit and metadata.application_type == ApplicationType.WEB:
            yield from _plain_redirects(metadata.redirect_uris)

    def _completed(self, kept: ClientMetadata, before: ClientMetadata) -> ClientMetadata:
        """Return what is registered: with the defaults of what was not said or not kept."""
        response_types = kept.openid.response_types
        if not response_types and GrantTypeName.AUTHORIZATION_CODE in kept.grant_types:
            response_types = ("code",)
        alone = set(kept.grant_types) <= {GrantTypeName.CLIENT_CREDENTIALS.value}
        scopes = kept.scopes or (() if alone else self.scopes)
        return replace(
            kept,
            scopes=scopes,
            default_scopes=tuple(name for name in scopes if name != "offline_access"),
            required_scopes=tuple(name for name in before.required_scopes if name in scopes),
            openid=replace(kept.openid, response_types=response_types),
        )


def _read(field: Field, members: Mapping[str, object], faults: list[MetadataError]) -> Any:
    """Return the value of the field's member; its default if it is omitted or invalid."""
    kind, value = field.rule.kind, members.get(field.member)
    if value is not None:
        try:
            return _READERS[kind](value)
        except _InvalidMember as right:
            faults.append(MetadataError(field.member, str(right)))
    # A list that is left out is empty until the rules below fill it.
    return () if kind in LISTS else field.default


def _types(values: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return response types and grant types, deriving the latter from the former if omitted."""
    response_types = tuple(" ".join(sorted(n.split(" "))) for n in values["response_types"])
    grant_types: tuple[str, ...] = values["grant_types"]
    if not grant_types:
        needed = {name for one in response_types for name in GRANT_TYPES_OF.get(one, ())}
        grant_types = tuple(sorted(needed)) or (GrantTypeName.AUTHORIZATION_CODE.value,)
    return response_types, grant_types


def refuse_registration(faults: Sequence[MetadataError]) -> NoReturn:
    """Raise Refused with the errors, under the member names of RFC 7591 (section 3.2.2)."""
    errors = [MetadataError(_member(fault.field), fault.detail) for fault in faults]
    about_redirects = all(fault.field.startswith("redirect_uris") for fault in errors)
    code = ErrorCode.INVALID_REDIRECT_URI if about_redirects else ErrorCode.INVALID_CLIENT_METADATA
    lines = [f"{fault.field}: {fault.detail}" for fault in errors[:_MOST_TOLD]]
    if len(errors) > _MOST_TOLD:
        lines.append(f"and {len(errors) - _MOST_TOLD} more")
    raise Refused.because(code, "; ".join(lines), f"registration.{errors[0].field.split('/')[0]}")


def _member(field: str) -> str:
    name, slash, number = field.partition("/")
    if name == "scopes":
        return "scope"
    return f"{FIELDS[name].member if name in FIELDS else name}{slash}{number}"


def _refuse_statement(members: Mapping[str, object]) -> None:
    statement = members.get("software_statement")
    if statement is None:
        return
    if isinstance(statement, str) and statement.count(".") == 2:  # noqa: PLR2004 - a JWS
        raise Refused.because(
            ErrorCode.UNAPPROVED_SOFTWARE_STATEMENT,
            "software_statement: this server accepts none; leave it out",
            "registration.software_statement",
        )
    raise Refused.because(
        ErrorCode.INVALID_SOFTWARE_STATEMENT,
        "software_statement: it is not a signed JWT; leave it out",
        "registration.software_statement",
    )


def _plain_redirects(redirect_uris: tuple[str, ...]) -> Iterator[MetadataError]:
    """Yield errors by the rules for web apps with the implicit grant (OIDC Registration 2)."""
    for number, uri in enumerate(redirect_uris):
        if uri.startswith("http:") or host_of(uri) == "localhost":
            detail = "https and not localhost, for a web app with the implicit grant"
            yield MetadataError(f"redirect_uris/{number}", detail)


def _usual_name(redirect_uris: tuple[str, ...]) -> str:
    return next((host for uri in redirect_uris if (host := host_of(uri)[:80])), _NAMELESS)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise _InvalidMember("a string")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _InvalidMember("an array of strings")
    items = cast("list[object]", value)
    if len(items) > _MOST_ENTRIES:
        raise _InvalidMember(f"an array of at most {_MOST_ENTRIES} strings")
    if not all(isinstance(item, str) and len(item) <= _LONGEST for item in items):
        raise _InvalidMember("an array of strings, and nothing else in it")
    return tuple(cast("list[str]", items))


def _words(value: object) -> tuple[str, ...]:
    return tuple(name for name in _text(value).split(" ") if name)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _InvalidMember("true or false")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _InvalidMember("a whole number")
    return value


def _document(value: object) -> str:
    if not isinstance(value, dict):
        raise _InvalidMember("a JSON object with an array keys")
    return msgspec.json.encode(value).decode()


_READERS: Mapping[FieldType, Callable[[object], object]] = MappingProxyType(
    {
        FieldType.LINE: _text,
        FieldType.LINK: _text,
        FieldType.TEXT: _text,
        FieldType.CHOICE: _text,
        FieldType.TEXTS: _texts,
        FieldType.GRANT_TYPES: _texts,
        FieldType.SCOPES: _words,
        FieldType.FLAG: _flag,
        FieldType.WHOLE: _whole,
        FieldType.LIFETIME: _whole,
        FieldType.KEY_SET: _document,
    }
)


def members(metadata: ClientMetadata) -> Iterator[tuple[str, object]]:
    """Return the members of a registration, with all defaults."""
    possible = [n for n, needed in GRANT_TYPES_OF.items() if needed <= set(metadata.grant_types)]
    for field in fields_of(Editor.CLIENT):
        value = field.value_of(metadata)
        if field.name == "response_types":
            value = value or possible
        elif field.rule.kind is FieldType.SCOPES:
            value = " ".join(value)
        elif field.rule.kind is FieldType.KEY_SET and value:
            value = msgspec.json.decode(value)
        # This server stores "" where nothing was chosen.
        if field.name in _ALWAYS or value not in ("", (), None):
            yield field.member, value


SCHEME = "https://"
"""A client id that begins so is the URL of a document."""

LONGEST_URL = 200
"""Maximum length of such a client id, in bytes."""

LARGEST = 32_768
"""Maximum size of a document, in bytes."""

SHORTEST_LIFE, USUAL_LIFE, LONGEST_LIFE = minutes(1), hours(1), days(1)
"""Bounds of the time for which a document is used without asking again, and the default."""

_SECRETS = ("client_secret", "client_secret_expires_at")
_METHODS = sorted(name for name, method in REGISTERED.items() if not is_by_secret(method))
"""Everyone can read the document, so its client has no secret."""
_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.-]+\+)?json")
_AGE = re.compile(r"[0-9]{1,9}", re.ASCII)


def host_of_document(client_id: str) -> str:
    """Return the host of a client id that is the URL of a document, with its port if unusual.

    Refused unless it is an https URL with a path, and without user name, query, fragment and dot
    segments, written so that every parser reads it alike.
    """
    web = parse_url(client_id) if len(client_id) <= LONGEST_URL else None
    if web is None or web.scheme != "https":
        _refuse("client_id", f"an https URL in lower case, of at most {LONGEST_URL} bytes")
    if not web.rest.startswith("/") or "?" in web.rest:
        _refuse("client_id", "a URL with a path and without a query")
    if any(unquote(segment) in {".", ".."} for segment in web.rest.split("/")):
        _refuse("client_id", "a URL without the path segments . and ..")
    return web.origin().removeprefix(SCHEME)


def read_document(client_id: str, media_type: str, body: bytes) -> Mapping[str, object]:
    """Return the members of the document at `client_id`, with the defaults of such documents.

    Without `token_endpoint_auth_method` the client is public. Refused if the document does not name
    `client_id` byte for byte, if it has a secret, and for an unknown authentication method, which a
    registration would replace: the app does not read what was registered.
    """
    if _JSON.fullmatch(media_type) is None or len(body) > LARGEST:
        _refuse("the document", f"JSON of at most {LARGEST // 1024} KiB")
    try:
        value = read_json(body)
    except Refused as refused:
        _refuse("the document", refused.refusal.description)
    if not isinstance(value, dict):
        _refuse("the document", "a JSON object")
    members = cast("dict[str, object]", value)
    if members.get("client_id") != client_id:
        _refuse("client_id", "the URL of the document, byte for byte")
    for name in _SECRETS:
        if members.get(name) is not None:
            _refuse(name, "none: everyone can read the document")
    method = members.get("token_endpoint_auth_method") or "none"
    if method not in _METHODS:
        _refuse("token_endpoint_auth_method", " or ".join(_METHODS))
    return {**members, "token_endpoint_auth_method": method}


def lifetime_of(cache_control: str, age: str) -> Lifetime:
    """Return for how long a response may be used, by its headers and within our bounds."""
    pairs = (part.strip().lower().partition("=") for part in cache_control.split(","))
    directives = {name: value.strip('"') for name, _, value in pairs}
    if not directives.keys().isdisjoint({"no-store", "no-cache"}):
        return SHORTEST_LIFE
    seconds = directives.get("s-maxage", directives.get("max-age", ""))
    if _AGE.fullmatch(seconds) is None:
        return USUAL_LIFE
    spent = int(age) if _AGE.fullmatch(age) else 0
    return Lifetime(min(max(int(seconds) - spent, SHORTEST_LIFE), LONGEST_LIFE))


def _refuse(field: str, detail: str) -> NoReturn:
    refuse_registration([MetadataError(field, detail)])
