"""Tokens by reference, and what is refused before its time."""
