"""What people with a role do to others, and to this server; without HTTP."""
