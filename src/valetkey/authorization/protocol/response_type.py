"""What an authorization answer is made of, and how it travels (OAuth Multiple Response Types)."""

from collections.abc import Mapping
from enum import StrEnum

from valetkey.authorization.model.register.client import Client, GrantTypeName

_LONGEST = 40


class ResponseType(StrEnum):
    """What the client wants sent back, spelt as the registry spells it."""

    CODE = "code"
    TOKEN = "token"  # the implicit grant
    ID_TOKEN = "id_token"
    ID_TOKEN_TOKEN = "id_token token"
    CODE_ID_TOKEN = "code id_token"
    CODE_TOKEN = "code token"
    CODE_ID_TOKEN_TOKEN = "code id_token token"

    @property
    def words(self) -> frozenset[str]:
        """What comes, one word each; their order says nothing (RFC 6749 section 3.1.1)."""
        return frozenset(self.split(" "))

    @property
    def has_code(self) -> bool:
        """Whether an authorization code comes."""
        return "code" in self.words

    @property
    def has_token(self) -> bool:
        """Whether an access token comes through the browser."""
        return "token" in self.words

    @property
    def has_id_token(self) -> bool:
        """Whether an ID token comes through the browser."""
        return "id_token" in self.words

    @property
    def needs(self) -> tuple[GrantTypeName, ...]:
        """The grant types that a client must have for it (OpenID Connect Registration section 2).

        Whatever comes through the browser beside the code needs `implicit`.
        """
        code = (GrantTypeName.AUTHORIZATION_CODE,) if self.has_code else ()
        return code if self is ResponseType.CODE else (*code, GrantTypeName.IMPLICIT)

    @staticmethod
    def of(text: str) -> "ResponseType | None":
        """The type that `text` names, whatever the order of its words; None for no such type."""
        # Nothing that is longer can be one, and splitting it would cost.
        words = text[:_LONGEST].split(" ")
        found = _TYPES.get(frozenset(words))
        return found if found is not None and len(found) == len(text) else None


_TYPES: Mapping[frozenset[str], ResponseType] = {each.words: each for each in ResponseType}


class ResponseMode(StrEnum):
    """How the answer gets back (Multiple Response Types section 2.1, Form Post Response Mode)."""

    QUERY = "query"
    FRAGMENT = "fragment"
    FORM_POST = "form_post"

    def fits(self, response_type: ResponseType) -> bool:
        """Whether answers of that type may travel so.

        Nothing but a code goes into a query, which is kept in histories and logs and sent to third
        parties. The plain implicit grant knows the fragment alone (specification section 2).
        """
        if self is ResponseMode.QUERY:
            return response_type is ResponseType.CODE
        return self is ResponseMode.FRAGMENT or response_type is not ResponseType.TOKEN


def default_mode(response_type: ResponseType) -> ResponseMode:
    """How an answer of that type travels when nobody says."""
    return ResponseMode.QUERY if response_type is ResponseType.CODE else ResponseMode.FRAGMENT


def mode_of_answer(response_type: str, response_mode: str | None) -> ResponseMode:
    """How the answer to such a request travels, even if it is that the request is wrong.

    What was asked for, wherever it may be given; else the default of the type, or of what its
    words would bring through the browser.
    """
    found = ResponseType.of(response_type)
    if found is None:
        words = response_type[:_LONGEST].split(" ")
        in_front = "token" in words or "id_token" in words
        found = ResponseType.ID_TOKEN if in_front else ResponseType.CODE
    try:
        mode = default_mode(found) if response_mode is None else ResponseMode(response_mode)
    except ValueError:
        return default_mode(found)
    return mode if mode.fits(found) else default_mode(found)


def may_ask_for(client: Client, response_type: ResponseType) -> bool:
    """Whether the client registered for it, has the grant types, and its profile permits them."""
    registered = client.openid.response_types
    if registered and response_type not in {ResponseType.of(text) for text in registered}:
        return False
    return all(client.may_use(grant_type) for grant_type in response_type.needs)
