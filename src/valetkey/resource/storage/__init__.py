"""What the resource server remembers: the users' data, and what it learned from the issuer."""
