"""Users, their roles, and the link that makes the first owner."""
