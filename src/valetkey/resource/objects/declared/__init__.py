"""Objects that the operator declares: each is one file in the directory that the settings name."""
