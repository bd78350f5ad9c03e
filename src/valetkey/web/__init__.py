"""The little ASGI both servers share; it knows nothing of OAuth beyond Refusal."""
