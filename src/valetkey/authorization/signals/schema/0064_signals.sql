-- Shared Signals: streams of Security Event Tokens to receivers, the users that a receiver does not
-- want to hear of, and the log of failed deliveries. A token waits in the outbox, with the stream in
-- `webhook_id`; `facts` is what it says, without what depends on its receiver.
CREATE TABLE signal_streams (
    id                TEXT   PRIMARY KEY,
    client_id         TEXT   NOT NULL,
    profile           TEXT   NOT NULL,
    audience          TEXT   NOT NULL,
    method            TEXT   NOT NULL,
    url               TEXT   NOT NULL,
    sealed            TEXT,
    events            TEXT   NOT NULL,
    description       TEXT   NOT NULL,
    subject_format    TEXT   NOT NULL,
    status            TEXT   NOT NULL,
    reason            TEXT   NOT NULL,
    locked            BIGINT NOT NULL,
    dropped           BIGINT NOT NULL,
    failures          BIGINT NOT NULL,
    failing_since     BIGINT,
    retry_at          BIGINT NOT NULL,
    last_delivery_at  BIGINT,
    verify_after      BIGINT NOT NULL,
    created_at        BIGINT NOT NULL
);
CREATE INDEX signal_streams_of_client ON signal_streams (client_id);
CREATE TABLE signal_exclusions (
    stream_id TEXT   NOT NULL,
    uid       BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (stream_id, uid)
);
CREATE INDEX signal_exclusions_by_user ON signal_exclusions (uid);
CREATE TABLE signal_failures (
    id          TEXT   PRIMARY KEY,
    stream_id   TEXT   NOT NULL,
    token_id    TEXT   NOT NULL,
    type        TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    outcome     TEXT   NOT NULL,
    description TEXT   NOT NULL,
    dropped     BIGINT NOT NULL
);
CREATE INDEX signal_failures_of_stream ON signal_failures (stream_id, at, id);
CREATE INDEX signal_failures_by_age ON signal_failures (at);

ALTER TABLE outbox ADD COLUMN facts TEXT;
