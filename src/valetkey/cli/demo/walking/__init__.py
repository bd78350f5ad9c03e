"""The demo's scripted walk, and its output."""
