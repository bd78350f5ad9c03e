"""Apps: the register of clients."""
