"""Stores of the administration: searches, API tokens, brand, restore."""
