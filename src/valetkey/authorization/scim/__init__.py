"""SCIM: a directory provisions users and groups with a credential of its own."""
