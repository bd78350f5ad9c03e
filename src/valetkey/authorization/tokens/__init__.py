"""Tokens: issuing, signing and reading them."""
