"""What OpenID Connect adds: userinfo, and how people leave (Core section 5.3, the logout specs)."""
