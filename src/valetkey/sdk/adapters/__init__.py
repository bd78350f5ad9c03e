"""Framework adapters: each is thin and imports its own framework alone."""
