"""What can be done to the register: one set of rules behind every door."""
