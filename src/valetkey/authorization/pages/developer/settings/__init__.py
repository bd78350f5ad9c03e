"""The forms in which an app is registered and changed."""
