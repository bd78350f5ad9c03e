"""What the server keeps of itself: its looks, its keys, why it refused."""
