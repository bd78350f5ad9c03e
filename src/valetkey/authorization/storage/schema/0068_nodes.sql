-- The nodes that run, each with its last heartbeat. `id` is that of a supervisor, `holder` that of the
-- process which writes for it. Times are those of the database's clock.
CREATE TABLE nodes (
    id         TEXT   PRIMARY KEY,
    holder     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    version    TEXT   NOT NULL,
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL
);
-- The last backup that is known, one row; `epoch` is that of `installation` then: a restore begins another.
CREATE TABLE backups (
    name        TEXT   PRIMARY KEY,
    kind        TEXT   NOT NULL,
    bytes       BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    epoch       BIGINT NOT NULL
);
