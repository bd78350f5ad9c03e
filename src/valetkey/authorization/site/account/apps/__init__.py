"""Connected apps: the list, one app, and the pages that revoke access."""
