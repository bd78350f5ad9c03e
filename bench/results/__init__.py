"""What was found: the committed run, and the page and the plot that are written from it."""
