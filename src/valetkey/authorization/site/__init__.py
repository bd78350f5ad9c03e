"""What people see, one folder per feature: handler, context and template side by side."""
