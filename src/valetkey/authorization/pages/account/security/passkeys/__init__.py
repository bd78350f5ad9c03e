"""A new passkey, and each of those there are."""
