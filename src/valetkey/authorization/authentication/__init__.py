"""User authentication: passwords, factors, sessions, upstream providers."""
