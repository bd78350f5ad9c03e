"""The team of an app: who is in it, who is asked, who goes."""
