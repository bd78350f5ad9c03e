"""OpenID Connect: userinfo (Core section 5.3) and the logout endpoints."""
