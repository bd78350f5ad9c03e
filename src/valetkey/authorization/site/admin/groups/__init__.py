"""Groups of users."""
