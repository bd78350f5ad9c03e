"""Dynamic client registration."""
