"""Password reset by a link sent to the address of the account."""
