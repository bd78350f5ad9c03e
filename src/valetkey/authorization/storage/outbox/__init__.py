"""What others must be told, at least once."""
