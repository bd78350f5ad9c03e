"""What developers see of how their app is doing."""
