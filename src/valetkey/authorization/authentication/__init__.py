"""How a user proves who they are: one factor per file, sessions, upstream providers."""
