-- The hash chain of the audit log. `block` is the number of an event's block, NULL until it has one:
-- also of what an earlier version wrote and writes.
CREATE TABLE audit_blocks (
    number    BIGINT PRIMARY KEY,
    at        BIGINT NOT NULL,
    first_at  BIGINT NOT NULL,
    last_at   BIGINT NOT NULL,
    keep      TEXT   NOT NULL,
    entries   TEXT   NOT NULL,
    previous  TEXT   NOT NULL,
    hash      TEXT   NOT NULL,
    signature TEXT   NOT NULL
);
ALTER TABLE events ADD COLUMN block BIGINT;
CREATE INDEX events_without_block ON events (at, id) WHERE block IS NULL;
