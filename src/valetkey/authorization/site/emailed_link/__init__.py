"""Parts shared by the pages of emailed links."""
