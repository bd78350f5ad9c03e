"""Changes of the register, with one set of rules for site, API and commands."""
