"""Sign-in methods of an account: password, passkeys, authenticator app, recovery codes."""
