"""Authentication factors other than the password, one for each file."""
