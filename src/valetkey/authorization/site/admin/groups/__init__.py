"""Groups of users: list, create, edit, and manage members."""
