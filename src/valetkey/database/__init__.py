"""Run plain functions as transactions on SQLite or PostgreSQL, with one SQL dialect."""
