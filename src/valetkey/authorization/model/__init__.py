"""The nouns: frozen records and what they know about themselves."""
