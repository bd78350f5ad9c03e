"""How every page looks: the brand, its colour, the stylesheet, the frames around the content."""
