"""Operations on the access of accounts, and imports of users."""
