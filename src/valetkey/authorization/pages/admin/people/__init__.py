"""People as those see them who look after them."""
