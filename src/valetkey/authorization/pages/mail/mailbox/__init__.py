"""The mailbox of a demo."""
