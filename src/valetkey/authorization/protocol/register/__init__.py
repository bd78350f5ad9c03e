"""The rules of registration."""
