"""The composition root: everything of the authorization server is wired here, and only here."""
