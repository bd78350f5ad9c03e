"""Operations of users on their own account."""
