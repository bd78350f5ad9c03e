"""The account area: what one has allowed, where one is signed in, what happened."""
