"""Operations on accounts beside the account itself: its access, and imports of many."""
