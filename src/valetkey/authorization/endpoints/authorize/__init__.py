"""The authorization endpoint: a request, what a person makes of it, and the one answer."""
