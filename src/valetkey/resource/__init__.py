"""The resource server: what tokens open; it protects itself with the SDK."""
