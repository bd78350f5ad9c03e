"""Sign in with a password or a passkey, and the second factor."""
