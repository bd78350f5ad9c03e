"""Response types and response modes (OAuth 2.0 Multiple Response Types)."""

from collections.abc import Mapping
from enum import StrEnum

from valetkey.authorization.model.register.client import Client, GrantTypeName

_LONGEST = 40


class ResponseType(StrEnum):
    """The registered response types."""

    CODE = "code"
    TOKEN = "token"  # the implicit grant
    ID_TOKEN = "id_token"
    ID_TOKEN_TOKEN = "id_token token"
    CODE_ID_TOKEN = "code id_token"
    CODE_TOKEN = "code token"
    CODE_ID_TOKEN_TOKEN = "code id_token token"

    @property
    def words(self) -> frozenset[str]:
        """The components; their order has no meaning (RFC 6749 section 3.1.1)."""
        return frozenset(self.split(" "))

    @property
    def has_code(self) -> bool:
        """Whether it includes an authorization code."""
        return "code" in self.words

    @property
    def has_token(self) -> bool:
        """Whether it includes an access token."""
        return "token" in self.words

    @property
    def has_id_token(self) -> bool:
        """Whether it includes an ID token."""
        return "id_token" in self.words

    @property
    def needs(self) -> tuple[GrantTypeName, ...]:
        """The grant types a client needs for it (OpenID Connect Registration section 2).

        Anything returned beside the code needs `implicit`.
        """
        code = (GrantTypeName.AUTHORIZATION_CODE,) if self.has_code else ()
        return code if self is ResponseType.CODE else (*code, GrantTypeName.IMPLICIT)

    @staticmethod
    def of(text: str) -> "ResponseType | None":
        """Return the type named by `text`, in any order of its words; None if there is none."""
        # Bounds the work: nothing longer can be a response type.
        words = text[:_LONGEST].split(" ")
        found = _TYPES.get(frozenset(words))
        return found if found is not None and len(found) == len(text) else None


_TYPES: Mapping[frozenset[str], ResponseType] = {each.words: each for each in ResponseType}


class ResponseMode(StrEnum):
    """How the response is delivered (Multiple Response Types 2.1, Form Post Response Mode)."""

    QUERY = "query"
    FRAGMENT = "fragment"
    FORM_POST = "form_post"

    def fits(self, response_type: ResponseType) -> bool:
        """Return whether responses of that type may be delivered this way.

        Only codes may be put into a query, which ends up in histories and logs. The plain implicit
        grant uses the fragment only.
        """
        if self is ResponseMode.QUERY:
            return response_type is ResponseType.CODE
        return self is ResponseMode.FRAGMENT or response_type is not ResponseType.TOKEN


def default_mode(response_type: ResponseType) -> ResponseMode:
    """Return the default mode for a response type."""
    return ResponseMode.QUERY if response_type is ResponseType.CODE else ResponseMode.FRAGMENT


def mode_of_answer(response_type: str, response_mode: str | None) -> ResponseMode:
    """Return the mode of the response to a request, including an error response.

    The requested mode if it is allowed for the type, otherwise the default of the type or of what
    its words would return.
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
    """Return whether the client registered for it, has its grant types, and may use them."""
    registered = client.openid.response_types
    if registered and response_type not in {ResponseType.of(text) for text in registered}:
        return False
    return all(client.may_use(grant_type) for grant_type in response_type.needs)
