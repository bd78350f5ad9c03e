"""How an account is secured: the pages on which its person looks after that."""
