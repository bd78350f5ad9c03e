"""What each error code means: one text per member of ErrorCode."""

from collections.abc import Mapping
from types import MappingProxyType

from valetkey.authorization.site.errors.api_texts import API
from valetkey.authorization.site.errors.authorization_texts import AUTHORIZATION
from valetkey.authorization.site.errors.http_texts import HTTP
from valetkey.authorization.site.errors.text import ErrorText
from valetkey.authorization.site.errors.token_texts import TOKEN
from valetkey.kernel.refusal import ErrorCode

TEXTS: Mapping[ErrorCode, ErrorText] = MappingProxyType(
    {**AUTHORIZATION, **TOKEN, **API, **HTTP},
)
"""The text of each code."""
