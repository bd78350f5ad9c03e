"""The rows of the table, area by area."""
