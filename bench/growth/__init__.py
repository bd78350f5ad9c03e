"""What a full database costs: fill one, and measure it beside an empty one."""
