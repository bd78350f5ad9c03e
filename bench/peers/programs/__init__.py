"""The programs that peers run in environments of their own."""
