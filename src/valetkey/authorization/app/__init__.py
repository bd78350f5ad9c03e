"""Composition root: the authorization server is wired here and only here."""
