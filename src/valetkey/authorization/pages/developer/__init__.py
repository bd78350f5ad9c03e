"""What developers see."""
