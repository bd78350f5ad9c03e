"""Who is it? The pages on which a person signs in."""
