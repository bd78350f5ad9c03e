"""How somebody comes to an account of their own."""
