"""What people prove with who they are, beside a password: one factor per file."""
