"""What is remembered of browsers and of attempts to sign in."""
