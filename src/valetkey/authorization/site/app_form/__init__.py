"""The form of an app, for the portal and the console."""
