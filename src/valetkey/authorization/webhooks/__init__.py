"""Webhooks: send chosen events to other servers, for the operator and for the team of an app."""
