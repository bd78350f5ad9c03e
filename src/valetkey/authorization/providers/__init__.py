"""Sign-in providers: other servers at which users may sign in."""
