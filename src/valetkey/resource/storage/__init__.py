"""The resource server's database: users' data, and state learned from the issuer."""
