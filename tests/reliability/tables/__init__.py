"""What becomes of tables and files while rows expire and others come."""
