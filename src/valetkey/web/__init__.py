"""The small ASGI framework of both servers; its only OAuth concept is Refusal."""
