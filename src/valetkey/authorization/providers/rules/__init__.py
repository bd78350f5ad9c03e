"""Sign in at other servers, and link accounts there."""
