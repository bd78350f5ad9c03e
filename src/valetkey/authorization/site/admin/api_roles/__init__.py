"""Roles at APIs on the pages of users and groups."""
