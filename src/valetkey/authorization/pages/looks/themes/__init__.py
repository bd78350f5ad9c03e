"""How an operator makes the pages theirs: a colour, a theme, and changes of both."""
