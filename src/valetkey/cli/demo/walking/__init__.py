"""The story that the demo tells by itself, and how it is told."""
