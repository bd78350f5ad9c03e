"""Obtain tokens for scripts and command line tools, and keep them fresh."""

from valetkey.kernel.jose.key import KeySet, SigningKey
from valetkey.kernel.secret import Secret
from valetkey.sdk.client.client import Client
from valetkey.sdk.client.token_file import DeviceCodes, Rejected, SignInNeeded, Tokens
from valetkey.sdk.fetch import Unreachable

__all__ = [
    "Client",
    "DeviceCodes",
    "KeySet",
    "Rejected",
    "Secret",
    "SignInNeeded",
    "SigningKey",
    "Tokens",
    "Unreachable",
]
