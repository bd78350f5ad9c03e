"""Obtain tokens for scripts and command line tools, and keep them fresh."""

from valetkey.sdk.client.client import Client
from valetkey.sdk.client.tokens import Rejected, SignInNeeded, Tokens
from valetkey.sdk.fetch import Unreachable

__all__ = ["Client", "Rejected", "SignInNeeded", "Tokens", "Unreachable"]
