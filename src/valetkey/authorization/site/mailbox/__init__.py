"""The emails of a demo, shown instead of sent."""
