"""Users, their roles, and the link that creates the first owner."""
