"""Operations on groups of users and their members."""
