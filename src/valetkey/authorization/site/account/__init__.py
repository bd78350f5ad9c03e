"""The account area: a user's profile, data, sessions, connected apps and security."""
