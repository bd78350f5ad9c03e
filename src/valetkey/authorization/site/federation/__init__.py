"""Sign in with an account at another identity provider, and link it to an account here."""
