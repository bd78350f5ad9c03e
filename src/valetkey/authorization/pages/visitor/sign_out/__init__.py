"""The pages on which a person leaves."""
