"""What each error code means: one text per member of ErrorCode."""

from collections.abc import Mapping
from types import MappingProxyType

from valetkey.authorization.pages.errors.api_texts import API
from valetkey.authorization.pages.errors.authorization_texts import AUTHORIZATION
from valetkey.authorization.pages.errors.http_texts import HTTP
from valetkey.authorization.pages.errors.text import ErrorText
from valetkey.authorization.pages.errors.token_texts import TOKEN
from valetkey.kernel.refusal import ErrorCode

TEXTS: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {**AUTHORIZATION, **TOKEN, **API, **HTTP},
)
"""The text of each code."""
