"""What a visitor meets on the way from an app and back to it."""
