"""Authenticate clients: known clients, failures per minute, uses of their secrets."""
