"""Attributes of accounts, declared claims, and the preview of tokens."""
