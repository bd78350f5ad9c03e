"""Create an account, confirmed by a link sent to its address."""
