"""What `valetkey doctor` looks at: one file for each place where something may be wrong."""
