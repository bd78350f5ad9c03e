"""The shape of an object: the fields that callers may write, and their allowed values."""
