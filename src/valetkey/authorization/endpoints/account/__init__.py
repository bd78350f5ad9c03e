"""Where people look after their account: apps, sessions, password, what happened."""
