"""Outbound HTTP requests: one guarded client against server-side request forgery."""
