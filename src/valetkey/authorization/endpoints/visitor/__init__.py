"""What a person meets: the way from an app to consent and back, one endpoint per file."""
