"""The pages of who signs in from another server."""
