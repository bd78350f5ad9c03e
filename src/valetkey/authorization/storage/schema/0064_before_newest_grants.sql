-- The apps of a user are found by reading of each app the newest grants until one is live.
CREATE INDEX grants_newest_of_user ON grants (uid, client_id, created_at)
    WHERE revoked_at IS NULL;
DROP INDEX grants_of_user_by_app;
