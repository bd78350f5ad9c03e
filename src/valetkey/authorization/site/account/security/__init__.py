"""The ways to sign in to an account, and how its user changes them."""
