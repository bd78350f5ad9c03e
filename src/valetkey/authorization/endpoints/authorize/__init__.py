"""The authorization endpoint: validate the request, ask the user, send one response."""
