"""The pages on which people look after their account."""
