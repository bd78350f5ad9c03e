"""Migrations of the resource server's own database."""
