-- The apps of a user are found by going from one client to the next, not through all grants.
CREATE INDEX grants_of_user_by_app ON grants (uid, client_id) WHERE revoked_at IS NULL;
DROP INDEX grants_of_user;
