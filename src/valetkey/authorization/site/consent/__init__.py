"""Ask a user whether an app may have what it requests."""
