"""Pages of sign-in providers: for visitors, in the account area and in the console."""
