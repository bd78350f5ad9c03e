"""What those who run this server look through, and the tokens of their programs."""
