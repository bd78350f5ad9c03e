"""From the Authorization header to a Caller: find the token and verify it."""
