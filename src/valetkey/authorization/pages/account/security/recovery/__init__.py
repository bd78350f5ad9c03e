"""Recovery codes: how many are left, and a new set."""
