"""What an authorization request adds to the pages: the answer as a form, single claims in words."""
