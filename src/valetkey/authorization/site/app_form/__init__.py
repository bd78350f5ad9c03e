"""The form that registers or changes an app, for the portal and the console."""
