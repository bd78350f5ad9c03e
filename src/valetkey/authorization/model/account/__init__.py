"""People with an account and what it says about them."""
