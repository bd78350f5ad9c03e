"""The little ASGI that both servers share; it knows nothing of OAuth beyond a refusal."""
