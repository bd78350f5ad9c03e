"""The email address of an account: show, verify, change, and undo a change."""
