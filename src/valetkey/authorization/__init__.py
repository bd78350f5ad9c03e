"""The authorization server: who is asking, who allowed it, and what they get."""
