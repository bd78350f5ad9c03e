"""Pages for people, one folder per feature: handler, context and template side by side."""
