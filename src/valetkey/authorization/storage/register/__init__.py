"""What is remembered of clients."""
