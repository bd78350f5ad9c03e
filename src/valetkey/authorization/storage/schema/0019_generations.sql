-- What was issued to a client or a user belongs to their generation. Ending all of it is the next
-- generation, at once and however much it is; the rows follow in batches.
ALTER TABLE clients ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN client_generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN user_generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
-- One that was ended and given again is another, and codes of the first are worth nothing.
ALTER TABLE consents ADD COLUMN id TEXT NOT NULL DEFAULT '';
CREATE INDEX grants_live_of_client ON grants (client_id) WHERE revoked_at IS NULL;

-- Endings whose rows are still to be written: all grants of a client or a user of an earlier
-- generation.
CREATE TABLE endings (
    kind       TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    because    TEXT   NOT NULL,
    done_by    TEXT   NOT NULL,
    ended_at   BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX endings_by_time ON endings (ended_at, kind, subject);
