-- Letters on their way, with what they say sealed: their links are secrets.
CREATE TABLE mails (
    id         TEXT   PRIMARY KEY,
    kind       TEXT   NOT NULL,
    uid        BIGINT,
    sealed     TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX mails_due ON mails (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX mails_kept ON mails (created_at, id) WHERE due_at IS NULL;
CREATE INDEX mails_expiring ON mails (expires_at);

-- Until when the address before the present one may take the account back.
ALTER TABLE users ADD COLUMN email_held_until BIGINT;
