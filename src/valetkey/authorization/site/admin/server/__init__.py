"""Keys, registration, settings, mail and API tokens."""
