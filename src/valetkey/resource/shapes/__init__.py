"""The shape of an object: which fields callers may write, and what each of them may be."""
