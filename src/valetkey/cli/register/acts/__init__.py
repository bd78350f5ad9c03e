"""Commands that end something for good, or vouch for it."""
