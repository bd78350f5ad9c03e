"""Background work of the server: cleaning up, key rotation, deliveries."""
