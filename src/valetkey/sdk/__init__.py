"""Protect your own API: it imports the kernel and nothing else of ours."""

from valetkey.sdk.bearer import read_bearer
from valetkey.sdk.caller import Caller
from valetkey.sdk.challenge import NO_TOKEN, Challenge
from valetkey.sdk.fetch import Credential
from valetkey.sdk.protect import Issuer, Memory, Protection, demand

__all__ = [
    "NO_TOKEN",
    "Caller",
    "Challenge",
    "Credential",
    "Issuer",
    "Memory",
    "Protection",
    "demand",
    "read_bearer",
]
