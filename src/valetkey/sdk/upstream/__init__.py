"""What an API learns from the issuer: its keys, token introspection, revocations."""
