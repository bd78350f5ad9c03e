-- Sessions in which somebody entered the pages of administration, with a cookie of its own.
CREATE TABLE administrations (
    session_id   TEXT   PRIMARY KEY,
    fingerprint  TEXT   NOT NULL,
    entered_at   BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX administrations_expiring ON administrations (expires_at);
