"""Clients and what they registered."""
