"""The SDK in your framework: each adapter is thin, and imports its framework alone."""
