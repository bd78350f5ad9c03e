-- One queue of what is delivered at least once: emails and logout tokens. What a server of the
-- version before still puts into the tables it replaces is moved here by a background job.
CREATE TABLE outbox (
    id         TEXT   PRIMARY KEY,
    queue      TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    uid        BIGINT,
    client_id  TEXT,
    session_id TEXT,
    sealed     TEXT,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX outbox_due ON outbox (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_kept ON outbox (created_at, id) WHERE due_at IS NULL;
CREATE INDEX outbox_expiring ON outbox (expires_at);
CREATE INDEX outbox_of_session ON outbox (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX outbox_of_users ON outbox (uid) WHERE uid IS NOT NULL;

INSERT INTO outbox
    (id, queue, kind, uid, sealed, attempts, due_at, created_at, expires_at)
    SELECT id, 'email', kind, uid, sealed, attempts, due_at, created_at, expires_at FROM mails;
DELETE FROM mails;
INSERT INTO outbox
    (id, queue, kind, uid, client_id, session_id, attempts, due_at, created_at, expires_at)
    SELECT id, 'logout', kind, uid, client_id, session_id, attempts, due_at, created_at, expires_at
    FROM deliveries;
DELETE FROM deliveries;
