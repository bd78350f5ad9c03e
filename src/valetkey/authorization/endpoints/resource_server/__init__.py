"""Endpoints for resource servers: revocations, and records stored here."""
