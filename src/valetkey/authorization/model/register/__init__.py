"""Clients and everything they registered."""
