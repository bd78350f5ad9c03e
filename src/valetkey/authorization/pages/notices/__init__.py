"""Pages that answers link to when something works and should still be changed."""
