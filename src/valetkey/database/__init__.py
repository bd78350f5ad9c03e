"""Transactions as plain functions, on any engine: SQLite and PostgreSQL, one SQL."""
