"""Objects that the operator declares, one file each, in the directory set in the settings."""
