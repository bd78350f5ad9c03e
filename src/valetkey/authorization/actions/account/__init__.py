"""What people do with their own account."""
