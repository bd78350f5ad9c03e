"""The console: everything for users with a role."""
