"""The authorization server's database: one store for each noun."""
