"""Records of the server itself: brand, keys and decisions."""
