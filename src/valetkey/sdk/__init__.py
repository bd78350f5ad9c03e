"""Protect your own API and obtain tokens; imports the kernel and no other Valetkey code."""

from valetkey.kernel.secret import Secret
from valetkey.sdk.adapters.gate import Gate
from valetkey.sdk.caller import NO_TOKEN, Caller, Challenge, read_bearer
from valetkey.sdk.fetch import Credential
from valetkey.sdk.protect import (
    Memory,
    Protection,
    demand,
    demand_role,
    metadata_document,
    metadata_path,
    metadata_url,
)
from valetkey.sdk.upstream.discovery import Issuer, find_issuer
from valetkey.sdk.verify import InvalidWebhook, LoggedOut, LogoutTokens, Webhook, verify_webhook

__all__ = [
    "NO_TOKEN",
    "Caller",
    "Challenge",
    "Credential",
    "Gate",
    "InvalidWebhook",
    "Issuer",
    "LoggedOut",
    "LogoutTokens",
    "Memory",
    "Protection",
    "Secret",
    "Webhook",
    "demand",
    "demand_role",
    "find_issuer",
    "metadata_document",
    "metadata_path",
    "metadata_url",
    "read_bearer",
    "verify_webhook",
]
