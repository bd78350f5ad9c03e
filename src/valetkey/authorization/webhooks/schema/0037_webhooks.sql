-- Webhooks: addresses that chosen events are sent to, and the log of attempts. An event waits in the
-- outbox once for each webhook; `subject` is whose order is kept, `position` the place in it.
CREATE TABLE webhooks (
    id               TEXT   PRIMARY KEY,
    url              TEXT   NOT NULL,
    description      TEXT   NOT NULL,
    events           TEXT   NOT NULL,
    sealed           TEXT   NOT NULL,
    previous_sealed  TEXT,
    previous_until   BIGINT,
    failures         BIGINT NOT NULL,
    retry_at         BIGINT NOT NULL,
    disabled_because TEXT   NOT NULL,
    disabled_at      BIGINT,
    created_at       BIGINT NOT NULL
);
CREATE TABLE webhook_attempts (
    id           TEXT   PRIMARY KEY,
    webhook_id   TEXT   NOT NULL,
    event_id     TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    at           BIGINT NOT NULL,
    attempt      BIGINT NOT NULL,
    outcome      TEXT   NOT NULL,
    milliseconds BIGINT NOT NULL,
    excerpt      TEXT   NOT NULL
);
CREATE INDEX webhook_attempts_of_webhook ON webhook_attempts (webhook_id, at, id);
CREATE INDEX webhook_attempts_by_age ON webhook_attempts (at);

ALTER TABLE outbox ADD COLUMN webhook_id TEXT;
ALTER TABLE outbox ADD COLUMN event_id TEXT;
ALTER TABLE outbox ADD COLUMN subject TEXT;
ALTER TABLE outbox ADD COLUMN position BIGINT;
CREATE INDEX outbox_of_webhook ON outbox (webhook_id, due_at, position) WHERE webhook_id IS NOT NULL;
CREATE INDEX outbox_of_subject ON outbox (webhook_id, subject, position, id)
    WHERE webhook_id IS NOT NULL;
