-- IP addresses: of the latest sign-in and the latest use of a session; and of events, outside the hash
-- chain of the audit log. Each is erased after `privacy.ip_address_retention`.
ALTER TABLE sessions ADD COLUMN signed_in_from TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN last_seen_from TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_signed_in_from ON sessions (auth_time) WHERE signed_in_from <> '';
CREATE INDEX sessions_last_seen_from ON sessions (last_seen_at) WHERE last_seen_from <> '';
CREATE TABLE event_origins (
    event_id TEXT   PRIMARY KEY,
    owner    BIGINT,  -- the uid of the user whose IP address it is
    origin   TEXT   NOT NULL,  -- IP address, browser and system
    noted_at BIGINT NOT NULL
);
CREATE INDEX event_origins_by_time ON event_origins (noted_at);
CREATE INDEX event_origins_of_users ON event_origins (owner) WHERE owner IS NOT NULL;
