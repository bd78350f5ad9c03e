"""Signing in from another server: the way there, the way back, and what is connected."""
