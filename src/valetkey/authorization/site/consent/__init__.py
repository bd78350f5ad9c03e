"""The consent page: ask a user whether an app may have the requested access."""
