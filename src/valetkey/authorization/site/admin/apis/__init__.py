"""APIs (protected resources): what access tokens are for."""
