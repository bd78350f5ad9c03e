"""Sign in with an upstream identity provider, and link its accounts."""
