"""The authorization server's register as an operator at a terminal opens, changes and sees it."""
