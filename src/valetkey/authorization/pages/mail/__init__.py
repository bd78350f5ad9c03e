"""Letters: a template each; its first line is the subject, and lone addresses become links."""
