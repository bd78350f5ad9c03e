"""Copy a database to another engine: rows, check, and the handover from one to the other."""
