"""Programs in administration: their tokens."""
