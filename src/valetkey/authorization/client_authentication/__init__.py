"""Client authentication (RFC 6749 section 2.3): one method per file."""
