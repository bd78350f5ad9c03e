"""Administration: one table of operations, from which its interfaces derive."""
