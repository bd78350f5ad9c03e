"""Pages that stand, unseen, in the pages of apps."""
