"""What clients call: token, revocation, introspection, metadata."""
