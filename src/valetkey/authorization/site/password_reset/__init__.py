"""Choose a new password by a link sent to the address of the account."""
