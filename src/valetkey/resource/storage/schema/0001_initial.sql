-- The resource server's tables, in the subset that SQLite and PostgreSQL share:
-- TEXT and BIGINT, times as whole seconds, identifiers chosen by us, JSON as TEXT
-- that SQL never looks into.

-- Every object of every kind. `owner` is `user:<uid>` or `client:<client_id>`.
CREATE TABLE objects (
    id         TEXT   PRIMARY KEY,
    kind       TEXT   NOT NULL,
    owner      TEXT   NOT NULL,
    document   TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX objects_of ON objects (owner, kind, created_at, id);

-- What a POST with an Idempotency-Key was answered, so that the same POST gets the same answer.
CREATE TABLE idempotency_keys (
    owner      TEXT   NOT NULL,
    client_id  TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    request    TEXT   NOT NULL,
    object_id  TEXT   NOT NULL,
    answer     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (owner, client_id, kind, name)
);
CREATE INDEX idempotency_keys_by_end ON idempotency_keys (expires_at);

-- What was learned from the authorization server, for the time when it is away.
CREATE TABLE revocations (
    kind       TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    revoked_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX revocations_by_end ON revocations (expires_at);

-- Single values: the key set, the feed's cursor, the key under which page cursors are sealed.
CREATE TABLE kept (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE decisions (
    reference   TEXT   PRIMARY KEY,
    at          BIGINT NOT NULL,
    endpoint    TEXT   NOT NULL,
    code        TEXT   NOT NULL,
    checked     TEXT   NOT NULL,
    description TEXT   NOT NULL,
    expected    TEXT   NOT NULL,
    received    TEXT   NOT NULL,
    client_id   TEXT,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX decisions_by_end ON decisions (expires_at);

-- One row that readiness writes, to know that writing works.
CREATE TABLE readiness (
    name BIGINT PRIMARY KEY,
    at   BIGINT NOT NULL
);
INSERT INTO readiness (name, at) VALUES (1, 0);
