-- Problems of which administrators are told by email, and who looks for them when.
-- An alert of a machine has its host; those of the whole installation have "".
CREATE TABLE alerts (
    id      TEXT   NOT NULL PRIMARY KEY,
    host    TEXT   NOT NULL,
    about   TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    told_at BIGINT
);
CREATE INDEX alerts_of_host ON alerts (host, since);
CREATE TABLE alert_rounds (
    host   TEXT   NOT NULL PRIMARY KEY,
    due_at BIGINT NOT NULL
);
