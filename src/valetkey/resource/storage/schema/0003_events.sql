-- What was done to objects, by whom, never what they hold. One change makes one version, so object
-- and version name it. `uid` is NULL where a client called for itself.
CREATE TABLE events (
    at        BIGINT NOT NULL,
    object_id TEXT   NOT NULL,
    version   BIGINT NOT NULL,
    name      TEXT   NOT NULL,
    object    TEXT   NOT NULL,
    uid       TEXT,
    client_id TEXT   NOT NULL,
    token_id  TEXT   NOT NULL,
    grant_id  TEXT,
    PRIMARY KEY (at, object_id, version)
);
