"""What resource servers call: what was revoked, and whose record a token opens."""
