"""Pages shared by all emailed links: check your email, and the link is invalid."""
