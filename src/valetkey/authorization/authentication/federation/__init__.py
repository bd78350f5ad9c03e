"""Signing in at another server: who somebody is there, and how we come to believe it."""
