"""What the issuer tells an API: its keys, whose a token is, what was revoked."""
