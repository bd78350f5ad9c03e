"""What a request to the API may say beyond its path, and how each part of it is read."""
