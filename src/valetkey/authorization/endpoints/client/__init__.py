"""Endpoints for clients: token, revocation, introspection and metadata."""
