"""From the Authorization header to a caller: where the token stands, and whether it is good."""
