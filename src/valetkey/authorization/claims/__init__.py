"""Attributes of accounts and claims of tokens that operators declare, and the preview of tokens."""
