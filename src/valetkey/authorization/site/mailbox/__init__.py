"""The mailbox of a demo: emails that are shown instead of sent."""
