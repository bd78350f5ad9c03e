"""Pages about the server: keys, registration, settings, mail, API tokens and SCIM."""
