"""The authorization server: authenticate users, ask for consent, and issue tokens."""
