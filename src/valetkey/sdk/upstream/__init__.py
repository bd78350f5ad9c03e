"""Requests to the issuer: keys, token introspection, revocations."""
