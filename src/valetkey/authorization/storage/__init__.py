"""What the authorization server remembers: one store per noun."""
