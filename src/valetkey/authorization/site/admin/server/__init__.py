"""Pages about the server: keys, registration, settings, mail and API tokens."""
