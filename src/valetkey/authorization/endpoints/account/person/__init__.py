"""The person: the overview, what they say of themselves, their data, the end of their account."""
