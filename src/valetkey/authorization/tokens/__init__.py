"""What was granted, made into strings."""
