"""Error pages: the refusal of one request, and what each error code means."""
