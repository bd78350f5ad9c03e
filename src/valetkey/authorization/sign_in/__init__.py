"""How a person proves who they are: one factor per file."""
