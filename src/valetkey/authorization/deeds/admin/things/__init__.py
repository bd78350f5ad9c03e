"""Apps, keys, events, invitations, letters and programs in administrators' hands."""
