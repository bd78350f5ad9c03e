"""Connected apps: all of them, one of them, and the question before their access ends."""
