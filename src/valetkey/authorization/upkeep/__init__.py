"""What the server does when nobody asks: it cleans, keeps its keys and delivers."""
