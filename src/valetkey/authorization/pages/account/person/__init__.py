"""The pages about the person: the overview, what they say of themselves, their data, the end."""
