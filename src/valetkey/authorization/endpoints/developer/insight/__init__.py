"""What developers find out about their app: refusals, usage, people, health; and trying it."""
