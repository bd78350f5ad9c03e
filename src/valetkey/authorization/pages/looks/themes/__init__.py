"""How an operator makes the pages theirs: a colour, a theme and its rehearsal, and changes of both."""
